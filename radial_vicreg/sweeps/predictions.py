"""Predictions on a sweep's runs before they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from radial_vicreg.config import RunConfig
from radial_vicreg.nets.stability import distant_equilibrium, past_stability
from radial_vicreg.sweeps.grid import SweepRun
from radial_vicreg.sweeps.status import composed_runs


@dataclass(frozen=True)
class Prediction:
    """A run with predictions on its training.

    Attributes:
        run: the run.
        config: its configuration.
    """

    run: SweepRun
    config: RunConfig

    @cached_property
    def past_stability(self) -> str | None:
        """Reason why the run is likely to diverge; None if it is not."""
        return past_stability(self.config)

    @cached_property
    def has_distant_equilibrium(self) -> bool:
        """Whether the radial term alone moves the radii away from the chi distribution; loads PyTorch."""
        return distant_equilibrium(self.config) is not None


def predictions_of(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> list[Prediction]:
    """Compose the configuration of every run, with predictions.

    Args:
        runs: runs of one sweep.
        overrides: additional Hydra overrides for every run.

    Returns:
        One prediction for each run.

    Raises:
        UserError: a configuration cannot be composed, or a swept key is overridden.
    """
    return [Prediction(run, config) for run, config in zip(runs, composed_runs(runs, overrides), strict=True)]
