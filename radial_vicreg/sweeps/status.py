"""Status of a sweep's runs, read from their ``results.json``."""

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
    """A run and its status.

    Attributes:
        run: the run.
        status: status in its ``results.json`` (``finished``, ``running``, ``stopped``, ``interrupted``, ``failed``), or
            ``missing``. A run that was killed stays ``running``.
        folder: folder of that file; None for a missing run.
        error: error message of a failed run.
        apart: description of a finished run with these settings that is not used because its images differ.
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
    """Find the results of every run.

    Args:
        runs: runs of one sweep.
        overrides: additional Hydra overrides for every run; ``runs_dir`` sets the folder that is searched.
        on_bad: callback with the error of each ``results.json`` that cannot be used.
        evidence: additional folder of results to search.

    Returns:
        One state for each run. If one configuration has several results on these images, a finished one takes
        precedence, then the newest. Each image folder is listed once; images of a missing folder are not compared.

    Raises:
        UserError: a configuration cannot be composed, or a swept key is overridden.
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
    """Return the best result for a configuration: a finished one, else the newest; None without any.

    Results on other images are ignored.

    Args:
        config: requested configuration.
        stored: runs to search.
    """
    candidates = stored.of(_with_images(config))
    return next((found for found in candidates if found.results.is_finished), next(iter(candidates), None))


def _with_images(config: RunConfig) -> RunConfig:
    """Add the fingerprints of its images to a configuration."""
    data = config.data.model_copy(update={"fingerprints": fingerprints_of(config)})
    return config.model_copy(update={"data": data})


def composed_runs(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> Iterator[RunConfig]:
    """Compose every run's configuration.

    Args:
        runs: runs of one sweep.
        overrides: additional Hydra overrides for every run.

    Yields:
        One configuration for each run.

    Raises:
        UserError: see :func:`states_of`.
    """
    given = {item.partition("=")[0] for item in overrides}
    for run in runs:
        swept = {item.partition("=")[0] for item in run.overrides}
        if given & swept:
            raise UserError(f"{', '.join(sorted(given & swept))}: the sweep sets this key itself: omit it")
    for config in compose_grid(runs[0].config_name, [run.overrides for run in runs], overrides):
        yield config.model_copy(update={"method_kwargs": config.objective_settings})
