"""Every kind of images goes the whole way: trained, resumed, probed, diagnosed, exported, reported, on both hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from celeba_copy import write_copy
from cifar_copy import write_cifar10
from helpers import make_solo_vit_small, one_line, only_run, pull_the_plug, read_results, tiny_settings, write_images
from toy_data_set import squares, write_yaml

from radial_vicreg import cli
from radial_vicreg.cli.commands import config_schema
from radial_vicreg.cli.completion import command_parser
from radial_vicreg.data import sets
from radial_vicreg.data.celeba import prepare_celeba
from radial_vicreg.names.data_sets import DATA_SETS, DataSetFacts
from radial_vicreg.paper.report import build_report

Trained = Callable[[str, str], Path]
REPOSITORY = Path(__file__).parents[2]


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
FAST = ("a data set as the recipe says", "standalone")
CELLS = [(kind, host) for kind in KINDS for host in ON[kind]]


def cells(fast: tuple[str, str] | None = None) -> list[Any]:
    solo, slow = pytest.mark.solo, pytest.mark.slow
    return [pytest.param(*cell, marks=[solo] * (cell[1] == "solo") + [slow] * (cell != fast)) for cell in CELLS]


@pytest.fixture(scope="module", autouse=True)
def _toy() -> Iterator[None]:
    with squares():
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def trained(runs: Path) -> Iterator[Trained]:
    """Trains a run of two epochs on a kind of images, once; it died after the first epoch and was resumed."""
    with pytest.MonkeyPatch.context() as patch:
        for drawn in ("radius_histograms.save_figure", "figure_files"):  # they take longer than the training
            patch.setattr(f"radial_vicreg.figures.{drawn}", lambda figure, path: {})

        @cache
        def train(kind: str, host: str) -> Path:
            root = runs / f"{list(KINDS).index(kind)}-{host}"
            root.mkdir()
            if host == "solo":
                make_solo_vit_small(patch)
            settings = ["pretrain", *KINDS[kind](root, patch), f"host={host}"]
            with pytest.MonkeyPatch.context() as plug:
                pull_the_plug(plug, epochs=1)
                with pytest.raises(ConnectionAbortedError, match="pulled"):
                    cli.main(settings)
            assert cli.main([*settings, "ckpt=last"]) == 0
            return only_run(root / "runs")

        yield train


@pytest.mark.parametrize(("kind", "host"), cells())
def test_a_run_is_resumed_and_knows_its_images(kind: str, host: str, trained: Trained) -> None:
    results = read_results(trained(kind, host))
    assert (results["host"], results["status"], results["epochs"]) == (host, "finished", 2)
    assert [entry["epoch"] for entry in results["history"]] == [1, 2]
    known = results["config"]["data"]["fingerprints"]
    assert known["train"]
    assert bool(known["val"]) == (kind != "no labels")
    skipped = {"train": 1, "val": 0} if kind == "skipped files" else {}
    assert (results.get("data") or {}).get("skipped_images", {}) == skipped


@pytest.mark.parametrize(("kind", "host"), cells(FAST))
def test_a_run_is_probed(kind: str, host: str, trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(kind, host)
    for features in ("encoder", "projector"):
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
        kept = read_results(run)["probes"][f"offline_knn_{features}"]
        assert kept[figure] == content["test"][figure]


@pytest.mark.parametrize(("kind", "host"), cells())
def test_a_run_is_diagnosed_and_exported(kind: str, host: str, trained: Trained, tmp_path: Path) -> None:
    run = trained(kind, host)
    assert cli.main(["diagnose", str(run), "--out", str(tmp_path / "diagnosed")]) == 0
    assert cli.main(["export", str(run), "--format", "timm", "--out", str(tmp_path / "export")]) == 0
    assert json.loads((tmp_path / "export" / "card.json").read_text())["normalisation"]["mean"]


@pytest.mark.slow
@pytest.mark.solo
def test_runs_on_all_kinds_of_images_are_reported_together(trained: Trained, runs: Path, tmp_path: Path) -> None:
    for cell in CELLS:
        trained(*cell)
    report = build_report(runs, tmp_path)
    assert {problem.kind for problem in report.problems} == {"repeated"}  # of one folder, however it is read
    assert sum(len(experiment.runs) for experiment in report.experiments) + len(report.problems) == len(CELLS)


@pytest.mark.slow
def test_celeba_is_probed_by_every_probe(trained: Trained) -> None:
    run = trained("celeba", "standalone")
    for probe in ("linear", "mlp"):
        assert cli.main(["probe", str(run), "--probe", probe, "--add-to-results"]) == 0
        assert 0 < read_results(run)["probes"][f"offline_{probe}_encoder"]["balanced_accuracy"] <= 100


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


def test_every_data_set_that_is_opened_has_a_reader_and_every_prepared_one_a_configuration() -> None:
    read = {name for name, facts in DATA_SETS.items() if facts != DataSetFacts() and name != "stl10"}
    for name in read:
        assert sets.data_set(name).dataset == name
    shipped = {file.stem for file in (REPOSITORY / "yaml" / "radialvicreg").glob("*/*.yaml")}
    assert set(sets.prepared_sets()) - {"squares"} <= shipped, "add yaml/radialvicreg/dataset/NAME.yaml"
