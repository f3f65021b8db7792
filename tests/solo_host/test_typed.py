"""The table of docs/solo_learn.md: what solo-learn users type works, or ends with the line that stands there."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from helpers import Typed, type_rows, write_images

from radial_vicreg.solo.limits import knn_fails

PAGE = Path(__file__).parents[2] / "docs" / "solo_learn.md"
WORKS = "works"
FEWEST_ROWS = 45

TINY = [
    *(
        "radialvicreg/dataset=folder",
        "data.train_path=train",
        "data.num_workers=0",
        "optimizer.batch_size=6",
        "max_epochs=1",
    ),
    *("accelerator=cpu", "precision=32", "scheduler.warmup_epochs=0"),
    *("method_kwargs.proj_hidden_dim=16", "method_kwargs.proj_output_dim=16", "diagnostics.enabled=false"),
]
"""Before what is typed: a dozen images, two steps."""

INSTALLED = {
    "umap-learn": importlib.util.find_spec("umap") is not None,
    "DALI": importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None,
    "h5py": importlib.util.find_spec("h5py") is not None,
    "hydra/launcher/joblib": importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is not None,
    "torchmetrics below 1.0": not knn_fails(),
    "gpu backend": torch.cuda.is_available(),
}
"""What lines of the table name as missing: a row that names what is here cannot be tried."""


class Row(NamedTuple):
    """A line of the table: what is typed, and the line that it ends with, or ``works``."""

    typed: str
    result: str

    @property
    def arguments(self) -> list[str]:
        """What Python gets after the script's name: flags, the tiny run, what is typed."""
        typed = shlex.split(self.typed)
        flags = [item for item in typed if item.startswith("-")]
        return ["--config-name", "radialvicreg", *flags, *TINY, *(item for item in typed if item not in flags)]

    @property
    def can_be_tried(self) -> bool:
        """Whether this environment lacks what the row says is missing."""
        if self.result == WORKS:
            return "wandb" not in self.typed or importlib.util.find_spec("wandb") is not None
        return not any(here and name in self.result for name, here in INSTALLED.items())

    @property
    def sections(self) -> set[str]:
        """What it sets, by the section of the configuration: rows of different ones may be typed together."""
        keys = (item.lstrip("+").partition("=")[0].removeprefix("radialvicreg/") for item in shlex.split(self.typed))
        return {
            key.partition(".")[0].replace("augmentations", "augment").replace("augmentation", "augment") for key in keys
        }

    def differs(self, done: Typed) -> str | None:
        """Say how a run ended, where the table says something else."""
        said = done.stdout + done.stderr
        results = done.folder.glob("trained_models/*/*/results.json")
        states = [json.loads(path.read_text())["status"] for path in results]
        if self.result == WORKS:
            as_written = done.returncode == 0 and set(states) == {"finished"}
        else:
            line = ".*".join(re.escape(part) for part in self.result.split("..."))
            as_written = done.returncode != 0 and any(re.fullmatch(line, given.strip()) for given in said.splitlines())
        return None if as_written else f"{self.typed}: status {done.returncode}, {states}, {said[-600:]}"


def rows() -> list[Row]:
    """Read the table whose second column is code, or the word works."""
    table = PAGE.read_text().partition("## What solo-learn users type")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| `+ ?(.+?) ?`+ \| (?:(works)[^|]*|`+ ?(.+?) ?`+) \|$", table, flags=re.MULTILINE)
    assert len(cells) == len(re.findall(r"^\| `", table, flags=re.MULTILINE)), "a row of the table cannot be read"
    return [Row(typed, works or line) for typed, works, line in cells]


def together(rows: Iterable[Row]) -> list[Row]:
    """Join rows that work and set different sections; networks are typed alone, and so are several runs at once."""
    joined: list[Row] = []
    for row in rows:
        alone = row.result != WORKS or "backbone" in row.sections or row.typed.startswith("-")
        fits = (
            index for index, other in enumerate(joined) if other.result == WORKS and not row.sections & other.sections
        )
        free = None if alone else next((i for i in fits if not joined[i].sections & {"backbone", "-m"}), None)
        if free is None:
            joined.append(row)
        else:
            joined[free] = Row(f"{joined[free].typed} {row.typed}", WORKS)
    return joined


@pytest.mark.slow
@pytest.mark.solo
def test_what_solo_learn_users_type_does_what_the_table_says(tmp_path: Path) -> None:
    found = rows()
    assert len(found) >= FEWEST_ROWS
    tried = together(row for row in found if row.can_be_tried)
    images = tmp_path / "images"
    for name in ("train", "val"):
        write_images(images / name, per_class=4)
    (write_images(images / "one", classes=1, per_class=12) / "class_0").rename(images / "flat")
    (images / "images.h5").touch()
    for number in range(len(tried)):
        (tmp_path / str(number)).mkdir()
        for name in ("train", "val", "flat", "images.h5"):
            (tmp_path / str(number) / name).symlink_to(images / name)
    ended = type_rows([row.arguments for row in tried], tmp_path)
    wrong = [row.differs(done) for row, done in zip(tried, ended, strict=True)]
    assert not any(wrong), "\n\n".join(filter(None, wrong))
