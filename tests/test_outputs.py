"""No command works for minutes and finds then that its output cannot be written."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import one_line, read_results, write_finished_run

from radial_vicreg.cli import main
from radial_vicreg.compose import compose
from radial_vicreg.data import celeba, cifar, imagenet10
from radial_vicreg.export import writing as export
from radial_vicreg.files import write_json
from radial_vicreg.probes import offline
from radial_vicreg.report import build
from radial_vicreg.solo import host
from radial_vicreg.train import run


@pytest.fixture
def run_folder(tiny_overrides: list[str], tmp_path: Path) -> Path:
    """A finished run of two epochs, without the training."""
    return write_finished_run(tmp_path / "run", compose("radialvicreg", tiny_overrides), epochs=2)


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """A file where a folder is to be."""
    file = tmp_path / "taken"
    file.write_text("precious")
    return file


@pytest.fixture
def forbid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Make a function fail the test when it is called: the work that must not have begun."""

    def replace(module: Any, name: str) -> None:
        def begun(*_: Any, **__: Any) -> None:
            raise AssertionError(f"{name} was called before the output was claimed")

        monkeypatch.setattr(module, name, begun)

    return replace


def _refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *words: str) -> None:
    capsys.readouterr()
    assert main(arguments) == 2
    one_line(capsys.readouterr().err, *words)


IN_THE_WAY = "is to be a folder, but there is a file: move it away"


def test_a_report_is_claimed_before_runs_are_read(
    taken: Path, tmp_path: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(build, "collect")
    _refused(["report", str(tmp_path), "--out", str(taken)], capsys, str(taken), IN_THE_WAY)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "figures").touch()
    _refused(["report", str(tmp_path), "--out", str(tmp_path / "report")], capsys, "report/figures", IN_THE_WAY)


def test_an_export_is_claimed_before_the_checkpoint_is_read(
    run_folder: Path, taken: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(export, "_save")
    (run_folder / "export").touch()
    _refused(["export", str(run_folder)], capsys, "export/torchvision cannot be written")
    forbid(export, "open_run")
    _refused(["export", str(run_folder), "--out", str(taken)], capsys, str(taken), IN_THE_WAY)


def test_an_export_without_its_library_leaves_no_folder(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    _refused(["export", str(run_folder), "--format", "safetensors"], capsys, "pip install safetensors")
    assert not (run_folder / "export").exists()


def test_a_probe_s_file_is_claimed_before_features_are_extracted(
    run_folder: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(offline, "run_features")
    (run_folder / "probes").touch()
    _refused(["probe", str(run_folder), "--probe", "knn"], capsys, "probes/knn-encoder.json cannot be written")


def test_a_probe_knows_before_it_begins_whether_it_can_be_added(
    run_folder: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(offline, "run_features")
    options = ["--probe", "knn", "--add-to-results"]
    arguments = ["probe", str(run_folder), *options]
    write_json(run_folder / "results.json", {**read_results(run_folder), "epochs": 3})
    _refused(arguments, capsys, "figures of epoch 3 (results.json) and weights of epoch 2")
    (checkpoint,) = {path.resolve() for path in run_folder.glob("checkpoints/*.ckpt")}
    named = ["probe", str(checkpoint), *options]
    _refused(named, capsys, "the checkpoint is of epoch 2, results.json of epoch 3: not added")
    write_json(run_folder / "args.json", read_results(run_folder)["config"])
    (run_folder / "results.json").unlink()
    _refused(arguments, capsys, "has no results.json to add to")


def test_training_claims_its_runs_before_images_are_read(
    tiny_overrides: list[str], taken: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(host, "build_standalone")
    forbid(run, "open_data")
    _refused(["pretrain", *tiny_overrides, "host=standalone", f"runs_dir={taken}"], capsys, str(taken), IN_THE_WAY)


def test_a_sweep_claims_its_logs_before_the_first_run(
    tiny_overrides: list[str], taken: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = tmp_path / "one.yaml"
    sweep.write_text(
        "{method: grid, parameters: {seed: {values: [5]}}, "
        "command: [x, --config-name, radialvicreg, '${args_no_hyphens}']}"
    )
    arguments = ["sweep", str(sweep), "--run", *tiny_overrides, f"runs_dir={taken}"]
    _refused(arguments, capsys, "cannot be written", f"{taken} is no folder")


@pytest.mark.parametrize(
    "arguments",
    [
        ["digits"],
        ["cifar10", "--as-folder"],
        ["celeba"],
        ["imagenet10", "--imagenet", "."],
    ],
    ids=lambda arguments: arguments[0],
)
def test_data_sets_claim_their_place_before_the_download(
    arguments: list[str], taken: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(cifar, "open_cifar")
    forbid(celeba, "_download")
    forbid(imagenet10, "_find_classes")
    _refused(["data", *arguments, "--out", str(taken)], capsys, str(taken), IN_THE_WAY)
    assert taken.read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "place"),
    [(["cifar10", "--as-folder"], "out/val"), (["celeba"], "out"), (["imagenet10", "--imagenet", "."], "out")],
    ids=["cifar10", "celeba", "imagenet10"],
)
def test_data_sets_find_what_is_not_theirs_before_the_download(
    arguments: list[str], place: str, tmp_path: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(cifar, "open_cifar")
    forbid(celeba, "_download")
    forbid(imagenet10, "_find_classes")
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "somebody's").touch()
    arguments = ["data", *arguments, "--out", str(tmp_path / "out")]
    _refused(arguments, capsys, f"{place} exists and was not prepared by this command: choose another --out")
