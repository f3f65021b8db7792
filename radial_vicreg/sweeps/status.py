"""What has become of a sweep's runs, told from their ``results.json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from radial_vicreg.compose import compose
from radial_vicreg.errors import UserError
from radial_vicreg.hosts.method_kwargs import complete_method_kwargs
from radial_vicreg.optim import process_count
from radial_vicreg.stored_runs import RunsByIdentity, stored_runs
from radial_vicreg.sweeps.grid import SweepRun

FINISHED, MISSING = "finished", "missing"
_NOT_HASHED = ("name", "method_tag")  # long texts, slow to resolve


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
    """Looks for the results of every run.

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
    for run, cfg in zip(runs, configurations, strict=True):
        candidates = stored.of(*hashed_part(cfg))
        if not candidates:
            states.append(RunState(run, MISSING))
            continue
        best = next((found for found in candidates if found.results.status == FINISHED), candidates[0])
        states.append(RunState(run, best.results.status, best.folder, best.results.error))
    return states


def runs_dir(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> str:
    """Folder of the runs, from the first run's configuration."""
    return str(compose(runs[0].config_name, [*runs[0].overrides, *overrides]).runs_dir)


def hashed_part(cfg: DictConfig) -> tuple[dict[str, Any], int]:
    """Resolve what a run's identity depends on.

    Args:
        cfg: composed configuration.

    Returns:
        Its plain containers without the long texts, and the number of processes.

    Raises:
        UserError: the method does not take these settings.
    """
    hashed = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key not in _NOT_HASHED])
    plain: dict[str, Any] = OmegaConf.to_container(hashed, resolve=True)  # type: ignore[assignment]
    plain["method_kwargs"] = complete_method_kwargs(plain["method"], plain["method_kwargs"])
    return plain, process_count(cfg)


def composed_runs(runs: Sequence[SweepRun], overrides: Sequence[str] = ()) -> Iterator[DictConfig]:
    """Composes every run's configuration.

    Hydra takes a quarter of a second for each. A grid shares its groups, so one composition for each choice of groups
    is enough: the other overrides are set in a copy.

    Args:
        runs: of one sweep.
        overrides: what every run gets on top.

    Yields:
        One configuration for each run.

    Raises:
        UserError: as :func:`states_of`.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser = OverridesParser.create()
    given = {item.partition("=")[0] for item in overrides}
    bases: dict[tuple[str, ...], DictConfig] = {}
    for run in runs:
        swept = {item.partition("=")[0] for item in run.overrides}
        if given & swept:
            raise UserError(f"{', '.join(sorted(given & swept))}: the sweep sets this key itself; leave it out")
        groups = tuple(item for item in run.overrides if _chooses_group(item))
        if groups not in bases:
            bases[groups] = compose(run.config_name, [*run.overrides, *overrides])
        cfg = bases[groups].copy()
        try:
            for override in parser.parse_overrides([item for item in run.overrides if not _chooses_group(item)]):
                OmegaConf.update(cfg, override.key_or_group, override.value())
        except OmegaConfBaseException:
            compose(run.config_name, [*run.overrides, *overrides])  # says what is wrong with the key
            raise
        yield cfg


def _chooses_group(override: str) -> bool:
    key = override.partition("=")[0]
    return key.startswith(("+", "~")) or "/" in key
