"""What has become of a sweep's runs, told from their ``results.json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from radial_vicreg.compose import compose_grid
from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.stored_runs import RunsByIdentity, StoredRun, stored_runs
from radial_vicreg.sweeps.grid import SweepRun

FINISHED, MISSING = "finished", "missing"


@dataclass(frozen=True)
class RunState:
    """A run and what was found of it.

    Attributes:
        run: the run.
        status: of its ``results.json`` (``finished``, ``running``, ``stopped``, ``interrupted``, ``failed``), or
            ``missing``. A run that was killed stays ``running``.
        folder: where that file is; None for a missing run.
        error: what a failed run said.
    """

    run: SweepRun
    status: str
    folder: Path | None = None
    error: str | None = None


def states_of(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> list[RunState]:
    """Look for the results of every run.

    Args:
        runs: of one sweep.
        overrides: what every run got on top; ``runs_dir`` among them says where to look.

    Returns:
        One state for each run. Of several results of one configuration, a finished one counts, then the newest.

    Raises:
        UserError: a configuration that cannot be composed, or an override of a swept key.
    """
    configurations = list(composed_runs(runs, overrides))
    stored = RunsByIdentity(stored_runs(configurations[0].runs_dir))
    states = []
    for run, config in zip(runs, configurations, strict=True):
        best = best_result(config, stored)
        if best is None:
            states.append(RunState(run, MISSING))
        else:
            states.append(RunState(run, best.results.status, best.folder, best.results.error))
    return states


def best_result(config: RunConfig, stored: RunsByIdentity) -> StoredRun | None:
    """Choose the result that counts for a configuration: a finished one, else the newest; None without any.

    Args:
        config: as requested.
        stored: where to look.
    """
    candidates = stored.of(config.plain(), config.processes)
    return next((found for found in candidates if found.results.status == FINISHED), next(iter(candidates), None))


def composed_runs(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> Iterator[RunConfig]:
    """Compose every run's configuration.

    Args:
        runs: of one sweep.
        overrides: what every run gets on top.

    Yields:
        One configuration for each run.

    Raises:
        UserError: as :func:`states_of`.
    """
    given = {item.partition("=")[0] for item in overrides}
    for run in runs:
        swept = {item.partition("=")[0] for item in run.overrides}
        if given & swept:
            raise UserError(f"{', '.join(sorted(given & swept))}: the sweep sets this key itself; leave it out")
    for config in compose_grid(runs[0].config_name, [run.overrides for run in runs], overrides):
        yield config.model_copy(update={"method_kwargs": config.objective_settings})
