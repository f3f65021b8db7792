"""What is known of a data set stands in one place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

import radial_vicreg
from radial_vicreg.names.data_sets import DATA_SETS, FORMATS, SCRIPT_FORMATS, channel_statistics, facts_of

PACKAGE = Path(radial_vicreg.__file__).parent

ALLOWED = {
    "config/sections.py": {"image_folder"},  # the default
    "train/run.py": {"image_folder"},  # what --check lists instead of decoding
    "gaussianity/backbones.py": {"imagenet"},  # whose statistics torchvision's weights want
    "solo/data.py": {"custom"},  # solo-learn's word for what it does not know
    "solo/attributes.py": {"dali"},
    "solo/limits.py": {"dali", "h5"},  # what its script refuses of each
    "solo/parts.py": {"dali", "h5"},
    "report/setting.py": {"custom"},
    "paper/radius_figures.py": {"cifar100"},  # the paper's
}
"""Modules that name a data set or a format, and which."""


def test_who_names_a_data_set_or_a_format_is_known() -> None:
    """Whatever else holds for a data set is asked of its facts or of its class."""
    names = (DATA_SETS.keys() | FORMATS.keys()) - {"device"}  # a tensor's device is called so, too
    quoted = re.compile("|".join(f'"({name})"' for name in sorted(names)))
    found: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE).as_posix()
        if not place.startswith(("data/", "names/data_sets.py")) and (
            there := set(re.findall(quoted, file.read_text()))
        ):
            found[place] = {name for groups in there for name in groups if name}
    assert found == ALLOWED, "ask radial_vicreg.names.data_sets.facts_of, or the class in radial_vicreg/data/sets.py"


def test_imagenets_statistics_are_timms() -> None:
    assert channel_statistics("custom") == (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD)
    assert channel_statistics("custom", mean=(0.1, 0.2, 0.3)) == ((0.1, 0.2, 0.3), IMAGENET_DEFAULT_STD)
    assert channel_statistics("cifar10", mean=(0.1, 0.2, 0.3))[0] == (0.4914, 0.4822, 0.4465)  # its own come first
    assert channel_statistics("a data set of tomorrow") == channel_statistics("imagenet")


@pytest.mark.solo
def test_facts_about_solo_learns_script_are_its_own() -> None:
    from solo.args.pretrain import _N_CLASSES_PER_DATASET, _SUPPORTED_DATASETS

    read = {name for name, facts in DATA_SETS.items() if facts.script_formats}
    assert read == set(_SUPPORTED_DATASETS)
    assert {name: facts_of(name).num_classes for name in _N_CLASSES_PER_DATASET} == _N_CLASSES_PER_DATASET
    assert {layout for name in read for layout in facts_of(name).script_formats} == set(SCRIPT_FORMATS)


@pytest.mark.solo
@pytest.mark.parametrize("name", [name for name, facts in DATA_SETS.items() if facts.script_formats])
def test_images_are_normalised_as_solo_learn_normalises_them(name: str) -> None:
    from omegaconf import OmegaConf
    from solo.data.pretrain_dataloader import build_transform_pipeline

    off = {"prob": 0}
    steps = ("color_jitter", "grayscale", "gaussian_blur", "solarization", "equalization", "horizontal_flip")
    cfg = OmegaConf.create({"rrc": {"enabled": False}, "crop_size": 32, **dict.fromkeys(steps, off)})
    normalise = build_transform_pipeline(name, cfg).transforms[-1]
    assert (tuple(normalise.mean), tuple(normalise.std)) == channel_statistics(name)
