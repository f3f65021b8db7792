"""A data set as docs/architecture.md says that one is added: a class, and a YAML."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from radial_vicreg.config import DataConfig
from radial_vicreg.data import sets
from radial_vicreg.data.image_set import ImageSet
from radial_vicreg.data.listing import Omitted
from radial_vicreg.names.data_sets import DATA_SETS, DataSetFacts

YAML = """\
# @package _global_
# Squares of three colours, which are made when they are read.
data:
  dataset: squares
  name: squares
  train_path: {place}
  val_path: null
  num_workers: 0
"""


class SquareImages(ImageSet):
    """Squares that have no files: 24 for training, 12 for validation."""

    def __init__(self, train: bool) -> None:
        self.classes = ["red", "green", "blue"]
        self.targets = [index % 3 for index in range(24 if train else 12)]
        self.omitted = Omitted()
        self._first = 0 if train else 1000

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        pixels = np.random.default_rng(self._first + index).integers(0, 128, (32, 32, 3), dtype=np.uint8)
        pixels[..., self.targets[index]] += 100
        return Image.fromarray(pixels), self.targets[index]

    def content(self) -> Iterator[bytes]:
        yield from (image.tobytes() for image, _ in self)


@contextmanager
def squares() -> Iterator[None]:
    """Registers the data set; afterwards nobody knows it."""

    @sets.register
    class Squares(sets.DataSet):
        """Squares of three colours."""

        name = dataset = "squares"
        facts = DataSetFacts(num_classes=3, is_fixed=True)
        image_size = 32
        about = "squares of three colours"

        def open_train(self, data: DataConfig) -> ImageSet:
            return SquareImages(train=True)

        def open_val(self, data: DataConfig) -> ImageSet:
            return SquareImages(train=False)

        def prepare(self, options: argparse.Namespace) -> Path:
            options.out.mkdir(parents=True)
            return Path(options.out)

    try:
        yield
    finally:
        del sets._REGISTERED["squares"], DATA_SETS["squares"]


def write_yaml(folder: Path, place: Path) -> Path:
    """Write the YAML of the data set into a user's folder of configurations, and a configuration that takes it."""
    group = folder / "radialvicreg" / "dataset"
    group.mkdir(parents=True)
    (group / "squares.yaml").write_text(YAML.format(place=place))
    return folder
