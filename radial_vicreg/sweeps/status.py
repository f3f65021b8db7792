"""What has become of a sweep's runs, told from their ``results.json``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from radial_vicreg.compose import compose_grid
from radial_vicreg.config import RunConfig
from radial_vicreg.data.fingerprint import fingerprints_of, listed_once
from radial_vicreg.errors import UserError
from radial_vicreg.runs.results import FINISHED, ResultsError
from radial_vicreg.runs.stored import RunsByIdentity, StoredRun, stored_runs
from radial_vicreg.sweeps.grid import SweepRun

MISSING = "missing"


@dataclass(frozen=True)
class RunState:
    """A run and what was found of it.

    Attributes:
        run: the run.
        status: of its ``results.json`` (``finished``, ``running``, ``stopped``, ``interrupted``, ``failed``), or
            ``missing``. A run that was killed stays ``running``.
        folder: where that file is; None for a missing run.
        error: what a failed run said.
        apart: a finished run of these settings that does not count, and why: its images are others.
    """

    run: SweepRun
    status: str
    folder: Path | None = None
    error: str | None = None
    apart: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to train."""
        return self.status == FINISHED


@listed_once()
def states_of(
    runs: Sequence[SweepRun],
    overrides: Sequence[str] = (),
    on_bad: Callable[[ResultsError], object] | None = None,
    evidence: Path | None = None,
) -> list[RunState]:
    """Look for the results of every run.

    Args:
        runs: of one sweep.
        overrides: what every run got on top; ``runs_dir`` among them says where to look.
        on_bad: called with the error of each ``results.json`` there that cannot be used.
        evidence: another folder of results to look into.

    Returns:
        One state for each run. Of several results of one configuration on these images, a finished one counts, then the
        newest. Each folder of images is listed once; one that is not there is compared with none.

    Raises:
        UserError: a configuration that cannot be composed, or an override of a swept key.
    """
    configurations = list(composed_runs(runs, overrides))
    folders = [Path(configurations[0].runs_dir), *([] if evidence is None else [evidence])]
    stored = RunsByIdentity([found for folder in folders for found in stored_runs(folder, on_bad)])
    states = []
    for run, config in zip(runs, configurations, strict=True):
        best = best_result(config, stored)
        if best is not None:
            states.append(RunState(run, best.results.status, best.folder, best.results.error))
            continue
        apart = [
            f"{found.folder} was {reason}"
            for found, reason in stored.kept_apart(_with_images(config))
            if found.results.is_finished
        ]
        states.append(RunState(run, MISSING, apart=next(iter(apart), None)))
    return states


def best_result(config: RunConfig, stored: RunsByIdentity) -> StoredRun | None:
    """Choose the result that counts for a configuration: a finished one, else the newest; None without any.

    A result on other images does not count.

    Args:
        config: as requested.
        stored: where to look.
    """
    candidates = stored.of(_with_images(config))
    return next((found for found in candidates if found.results.is_finished), next(iter(candidates), None))


def _with_images(config: RunConfig) -> RunConfig:
    """List what is requested, with the fingerprints of its images."""
    data = config.data.model_copy(update={"fingerprints": fingerprints_of(config)})
    return config.model_copy(update={"data": data})


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
