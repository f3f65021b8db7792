"""What is known of a sweep's runs before they are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radial_vicreg.stability import past_stability, pulled_away
from radial_vicreg.sweeps.grid import SweepRun
from radial_vicreg.sweeps.status import composed_runs


@dataclass(frozen=True)
class Mark:
    """A run and what is to be expected of it.

    Attributes:
        run: the run.
        past_stability: why it is likely to diverge; None where it is not.
        is_pulled_away: whether its radial term alone pulls the radii away from the chi distribution.
    """

    run: SweepRun
    past_stability: str | None
    is_pulled_away: bool


def marks_of(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> list[Mark]:
    """Marks every run.

    Args:
        runs: of one sweep.
        overrides: what every run gets on top.

    Returns:
        One mark for each run.

    Raises:
        UserError: a configuration that cannot be composed, or an override of a swept key.
    """
    configurations = composed_runs(runs, overrides)
    return [
        Mark(run, past_stability(config), pulled_away(config) is not None)
        for run, config in zip(runs, configurations, strict=True)
    ]
