"""Every kind of images goes the whole way: trained, resumed, probed, diagnosed, exported, reported, on both hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from celeba_copy import write_copy
from cifar_copy import write_cifar10
from helpers import make_solo_vit_small, one_line, only_run, pull_the_plug, read_results, tiny_settings, write_images
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from toy_data_set import squares, write_yaml

import radial_vicreg
from radial_vicreg import cli
from radial_vicreg.cli.commands import config_schema
from radial_vicreg.cli.completion import command_parser
from radial_vicreg.data import sets
from radial_vicreg.data.celeba import prepare_celeba
from radial_vicreg.names.data_sets import DATA_SETS, FORMATS, SCRIPT_FORMATS, channel_statistics, facts_of


def folder(root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    return tiny_settings(write_images(root / "train"), write_images(root / "val", per_class=4), root)


def with_bad_files(root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    settings = folder(root, patch)
    (root / "train" / "class_0" / "0.png").write_bytes(b"no image")
    return [*settings, "data.on_bad_image=skip"]


def flat(root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    settings = folder(root, patch)
    return [*settings, f"data.train_path={root / 'train' / 'class_0'}", "data.no_labels=true", "data.val_path=null"]


def celeba(root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    out = prepare_celeba(root / "celeba", write_copy(root / "copy", (24, 12, 1)))
    settings = tiny_settings(out / "train", out / "val", root)
    return ["--config-name", "celeba/resnet18/radial_kl_d512", *settings[1:], "augment.crop_size=32"]


def cifar(root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    place = write_cifar10(root / "cifar", patch, per_batch=20)
    return [*tiny_settings(place, place, root), "radialvicreg/dataset=cifar10"][1:]


def toy(root: Path, patch: pytest.MonkeyPatch) -> list[str]:
    (root / "empty").mkdir()
    configurations = write_yaml(root / "configurations", root / "empty")
    settings = [item for item in tiny_settings(root, root, root) if not item.startswith(("radialvicreg/", "data."))]
    return ["--config-dir", str(configurations), "radialvicreg/dataset=squares", *settings]


KINDS = {
    "folder": folder,
    "device": lambda root, patch: [*folder(root, patch), "data.format=device"],
    "ram": lambda root, patch: [*folder(root, patch), "data.cache=ram"],
    "fraction": lambda root, patch: [*folder(root, patch), "data.fraction=0.7"],
    "skipped files": with_bad_files,
    "no labels": flat,
    "celeba": celeba,
    "celeba, fraction, ram": lambda root, patch: [*celeba(root, patch), "data.fraction=0.7", "data.cache=ram"],
    "cifar": cifar,
    "a data set as the recipe says": toy,
}
ON = {
    **dict.fromkeys(("device", "ram", "celeba, fraction, ram", "cifar"), ("standalone",)),
    **dict.fromkeys(("folder", "fraction", "skipped files", "no labels"), ("solo",)),
    **dict.fromkeys(("celeba", "a data set as the recipe says"), ("standalone", "solo")),
}
"""Hosts of each kind. The standalone host alone reads device and ram; attributes and custom data sets run on both."""


CELLS = [pytest.param(kind, host, marks=[pytest.mark.solo] * (host == "solo")) for kind in KINDS for host in ON[kind]]


@pytest.fixture(scope="module", autouse=True)
def _toy() -> Iterator[None]:
    with squares():
        yield


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "host"), CELLS)
def test_a_run_is_resumed_probed_diagnosed_and_exported(
    kind: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for drawn in ("radius_histograms.save_figure", "figure_files"):  # they take longer than the training
        monkeypatch.setattr(f"radial_vicreg.figures.{drawn}", lambda figure, path: {})
    if host == "solo":
        make_solo_vit_small(monkeypatch)
    settings = ["pretrain", *KINDS[kind](tmp_path, monkeypatch), f"host={host}"]
    with pytest.MonkeyPatch.context() as plug:
        pull_the_plug(plug, epochs=1)
        with pytest.raises(ConnectionAbortedError, match="pulled"):
            cli.main(settings)
    assert cli.main([*settings, "ckpt=last"]) == 0
    run = only_run(tmp_path / "runs")
    results = read_results(run)
    assert (results["host"], results["status"], results["epochs"]) == (host, "finished", 2)
    assert [entry["epoch"] for entry in results["history"]] == [1, 2]
    known = results["config"]["data"]["fingerprints"]
    assert known["train"]
    assert bool(known["val"]) == (kind != "no labels")
    skipped = {"train": 1, "val": 0} if kind == "skipped files" else {}
    assert (results.get("data") or {}).get("skipped_images", {}) == skipped
    for features in ("encoder", "projector"):
        capsys.readouterr()
        status = cli.main(["probe", str(run), "--probe", "knn", "--features", features, "--add-to-results"])
        if kind == "no labels":
            assert status == 2
            one_line(capsys.readouterr().err, "a probe needs labels")
            continue
        assert status == 0
        content = json.loads((run / "probes" / f"knn-{features}.json").read_text())
        figure = "balanced_accuracy" if kind.startswith("celeba") else "top1"
        assert 0 < content["test"][figure] <= 100
        assert content["features_cached"] == (features == "projector")  # one pass gives both
        assert content["other_images"] == ""
        assert read_results(run)["probes"][f"offline_knn_{features}"][figure] == content["test"][figure]
    assert cli.main(["diagnose", str(run), "--out", str(tmp_path / "diagnosed")]) == 0
    assert cli.main(["export", str(run), "--format", "timm", "--out", str(tmp_path / "export")]) == 0
    assert json.loads((tmp_path / "export" / "card.json").read_text())["normalisation"]["mean"]


def test_a_registered_data_set_is_prepared_and_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["data", "squares", "--out", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "out")
    assert (tmp_path / "out").is_dir()
    assert command_parser(cli.COMMANDS, "data").parse_args(["data", "squares"]).out == Path("datasets/squares")
    assert config_schema.run([]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert "squares" in schema["$defs"]["DataConfig"]["properties"]["dataset"]["anyOf"][0]["enum"]


def test_a_data_set_without_its_facts_is_refused() -> None:
    """The schema that editors use would not know it, and nobody could tell how many classes there are."""
    with pytest.raises(ValueError, match=r"forgotten is not in radial_vicreg\.names\.data_sets\.DATA_SETS: .* facts"):

        @sets.register
        class Forgotten(sets.DataSet):
            name = dataset = "forgotten"


# ---- what is known of a data set stands in one place ----


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
