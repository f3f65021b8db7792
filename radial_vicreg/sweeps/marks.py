"""What is known of a sweep's runs before they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from radial_vicreg.config import RunConfig
from radial_vicreg.nets.stability import past_stability, pulled_away
from radial_vicreg.sweeps.grid import SweepRun
from radial_vicreg.sweeps.status import composed_runs


@dataclass(frozen=True)
class Mark:
    """A run and what is to be expected of it.

    Attributes:
        run: the run.
        config: its configuration.
    """

    run: SweepRun
    config: RunConfig

    @cached_property
    def past_stability(self) -> str | None:
        """Why it is likely to diverge; None where it is not."""
        return past_stability(self.config)

    @cached_property
    def is_pulled_away(self) -> bool:
        """Whether its radial term alone pulls the radii away from the chi distribution; asking loads PyTorch."""
        return pulled_away(self.config) is not None


def marks_of(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> list[Mark]:
    """Mark every run.

    Args:
        runs: of one sweep.
        overrides: what every run gets on top.

    Returns:
        One mark for each run.

    Raises:
        UserError: a configuration that cannot be composed, or an override of a swept key.
    """
    return [Mark(run, config) for run, config in zip(runs, composed_runs(runs, overrides), strict=True)]
