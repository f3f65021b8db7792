"""The forms that a source of embeddings may have. Without PyTorch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.errors import UserError
from radial_vicreg.names.choices import EXPORT_CARD
from radial_vicreg.names.counts import first_of
from radial_vicreg.runs.checkpoints import CHECKPOINTS, find_checkpoint, followed, require_run
from radial_vicreg.runs.results import RESULTS
from radial_vicreg.runs.stored import is_of_script, single_run

FORMS = "a run's folder, a checkpoint, an exported folder, FILE.npy, timm:NAME or torchvision:NAME"

LIBRARIES = ("timm", "torchvision")
"""Libraries whose backbones are named ``LIBRARY:NAME``."""


PREFIXES = tuple(f"{library}:" for library in LIBRARIES)


def require_source(name: str) -> None:
    """Check that a source exists, without opening it.

    Args:
        name: as given to ``radial-vicreg diagnose``; the name of a library's backbone is looked up when it is built.

    Raises:
        UserError: there is no such file or folder.
    """
    if not name.startswith(PREFIXES) and not os.path.lexists(name):
        raise UserError(f"{name} does not exist; expected {FORMS}")


def distinct_sources(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Choose the sources among several names, such as those that a shell makes of ``runs/*/*``.

    Args:
        names: as given to ``radial-vicreg diagnose``; every one exists (:func:`require_source`).

    Returns:
        The sources, each run once, and a line about each kind of names that are skipped: other files of a run, folders
        without a run, and further names of a run, such as ``runs/latest``. A single name is never skipped.

    Raises:
        UserError: a folder holds several runs, or no name is a source.
    """
    if len(names) == 1:
        return list(names), []
    found: dict[str, list[str]] = {}
    files, empty = [], []
    for place, name in enumerate(names):
        path = Path(name)
        if name.startswith(PREFIXES) or path.suffix == ".npy" or (path / EXPORT_CARD).is_file():
            found[f"{place}:{name}"] = [name]  # given twice, it is measured twice
        elif path.is_file() and path.suffix != ".ckpt" and _is_run(path.parent):
            files.append(name)
        elif path.is_dir() and (run := single_run(path)).is_dir() and not _has_checkpoint(run):
            empty.append(name)
        else:
            found.setdefault(_identity(path), []).append(name)
    if not found:
        find_checkpoint(single_run((empty or files)[0]))  # raises, with what it lacks
        raise UserError(f"{files[0]} is a file of a run; give the run's folder")
    chosen = [min(same, key=_is_another_name) for same in found.values()]
    again = [name for same, kept in zip(found.values(), chosen, strict=True) for name in same if name != kept]
    kinds = {"files of a run": files, "folders without a checkpoint": empty, "further names of the same runs": again}
    return chosen, [f"skipped {what}: {first_of(skipped)}" for what, skipped in kinds.items() if skipped]


def _identity(path: Path) -> str:
    """Return the real path of a checkpoint, or of a run's folder."""
    run = single_run(path)
    return os.path.realpath(followed(run) if run.is_file() else run.parent if run.name == CHECKPOINTS else run)


def _is_another_name(name: str) -> tuple[bool, bool]:
    """Rank the names of one run: its folder's own comes first, a link and the folder of its checkpoints last."""
    return Path(name).name == CHECKPOINTS, os.path.realpath(name) != os.path.abspath(name)


def _is_run(folder: Path) -> bool:
    return (folder / RESULTS).is_file() or is_of_script(folder)


def _has_checkpoint(run: Path) -> bool:
    try:
        require_run(run)
    except UserError:
        return False
    return True
