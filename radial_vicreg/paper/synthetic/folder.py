"""Output folders of synthetic runs and figures, which replace earlier synthetic results only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.figures import SUFFIXES
from radial_vicreg.io.outputs import OutputFolder, json_with
from radial_vicreg.runs.results import RESULTS

RUN, SNAPSHOTS = "run", "snapshots.npz"
_KEYS = (("config", "key", "before"), ("size", "panels"), ("size", "spearman"))  # in results of a run, figures 1 and 3


def names_of(figure: str) -> list[str]:
    """List the file names of a run (``"run"``) or of a figure (``"figure1"``)."""
    return [RESULTS, *([SNAPSHOTS] if figure == RUN else []), *(f"{figure}{suffix}" for suffix in SUFFIXES)]


def result_folder(out: str | Path, setting: str = "--out DIR") -> OutputFolder:
    """Open the folder of a run or a figure; existing results are replaced only if they are synthetic."""
    return OutputFolder(out, "synthetic", _former_files, setting=setting)


def _former_files(folder: Path) -> Sequence[str]:
    """List the files of version 0.2 or earlier; ``results.json``, which identifies the folder, comes last."""
    if not any(json_with(*keys)(folder / RESULTS) for keys in _KEYS):
        return []
    names = [*names_of(RUN), *names_of("figure1"), *names_of("figure3")]
    return [name for name in reversed(dict.fromkeys(names)) if (folder / name).exists()]
