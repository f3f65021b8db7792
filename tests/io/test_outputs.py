"""No command works for minutes and finds then that its output cannot be written."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import one_line, read_results

from radial_vicreg.cli import main
from radial_vicreg.data import celeba, cifar
from radial_vicreg.data.prepare import imagenet10
from radial_vicreg.export import writing as export
from radial_vicreg.figures import SUFFIXES
from radial_vicreg.io.files import write_json
from radial_vicreg.paper.synthetic import run as synthetic_run
from radial_vicreg.paper.synthetic.folder import names_of, result_folder
from radial_vicreg.probes import offline
from radial_vicreg.report import build
from radial_vicreg.solo import host
from radial_vicreg.train import run


@pytest.fixture
def run_folder(finished_run: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a finished run of two epochs."""
    return Path(shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True))


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


IN_THE_WAY = "exists and is a file, expected a folder: move it away"


def test_a_report_is_claimed_before_runs_are_read(
    taken: Path, tmp_path: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(build, "collect")
    _refused(["report", str(tmp_path), "--out", str(taken)], capsys, str(taken), IN_THE_WAY)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "figures").touch()
    there = (
        f"{tmp_path}/report contains files that `radial-vicreg report` did not write (figures): choose an empty folder"
    )
    _refused(["report", str(tmp_path), "--out", str(tmp_path / "report")], capsys, there)


@pytest.mark.slow
def test_an_export_is_claimed_before_the_checkpoint_is_read(
    run_folder: Path, taken: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(export, "_serialise")
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
    _refused(arguments, capsys, "results of epoch 3 (results.json) and weights of epoch 2")
    checkpoint = (run_folder / "checkpoints" / "last.ckpt").resolve()
    named = ["probe", str(checkpoint), *options]
    _refused(named, capsys, "the checkpoint is of epoch 2, results.json is of epoch 3: the results were not added")
    write_json(run_folder / "args.json", read_results(run_folder)["config"])
    (run_folder / "results.json").unlink()
    _refused(arguments, capsys, "has no results.json: the results cannot be added")


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
    _refused(arguments, capsys, "cannot be written", f"{taken} is not a folder")


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


# ---- what is there already is replaced only where it is the command's own


@pytest.fixture
def diagnosis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The command ``diagnose`` without its work, which takes seconds."""
    content = {"radial_vicreg": "0", "sources": [], "normal_curves": {}, "normal_draws": 1}
    drawn = {f"diagnose{suffix}": b"drawn" for suffix in SUFFIXES}
    monkeypatch.setattr("radial_vicreg.gaussianity.measure.diagnose", lambda *_: content)
    monkeypatch.setattr("radial_vicreg.gaussianity.figure.diagnose_figure", lambda _: None)
    monkeypatch.setattr("radial_vicreg.figures.figure_files", lambda *_: drawn)
    (tmp_path / "z.npy").touch()
    return ["diagnose", str(tmp_path / "z.npy")]


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_diagnosis_keeps_a_figure_that_was_edited_and_moves_that_of_0_2_aside(
    diagnosis: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = [*diagnosis, "--out", str(out)]
    assert main(command) == 0
    (out / "note.txt").write_text("mine")
    assert main(command) == 0
    (out / "diagnose.svg").write_text("edited")
    before = _contents(out)
    _refused(command, capsys, f"{out}/diagnose.svg has changed since `radial-vicreg diagnose` wrote it")
    assert _contents(out) == before
    (out / "radial_vicreg_diagnose.json").unlink()  # which 0.2 did not write
    assert main(command) == 0
    assert "4 files of an earlier version" in capsys.readouterr().out
    assert [path.read_text() for path in out.glob("replaced-*/diagnose.svg")] == ["edited"]
    assert (out / "diagnose.svg").read_text() == "drawn"
    (out / "radial_vicreg_diagnose.json").unlink()
    (out / "diagnose.json").write_text("{}")
    _refused(command, capsys, f"{out}/diagnose.json was not written by `radial-vicreg diagnose`")


@pytest.mark.parametrize(
    ("name", "state"), zip(names_of("run"), itertools.cycle(["changed", "not ours"]), strict=False)
)
def test_a_synthetic_run_replaces_nothing_but_a_synthetic_run(
    name: str, state: str, tmp_path: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(synthetic_run, "run")
    if state == "changed":
        result_folder(tmp_path).write(dict.fromkeys(names_of("run"), b"first"))
        result_folder(tmp_path).write(dict.fromkeys(names_of("run"), b"again"))
    (tmp_path / name).write_text("mine")
    _refused(["synthetic", f"out={tmp_path}"], capsys, f"{tmp_path / name} ", "`radial-vicreg synthetic`")
    assert (tmp_path / name).read_text() == "mine"


def test_a_synthetic_sweep_keeps_a_file_without_a_row_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results-0-of-1.jsonl"
    file.write_text('{"my": "lines"}\n')
    _refused(["synthetic", "sweep", "--out", str(tmp_path), "--workers", "1"], capsys, f"{file} was not written by")
    assert file.read_text() == '{"my": "lines"}\n'


@pytest.mark.parametrize("there", ["card.json", "backbone.pth", "changed", "link"])
def test_an_export_replaces_nothing_but_an_export(
    there: str, finished_run: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["export", str(finished_run("standalone")), "--format", "timm", "--out", str(out)]
    out.mkdir()
    if there in ("changed", "link"):
        assert main(command) == 0
        assert main(command) == 0
    target = out / (there if there.startswith(("card", "backbone")) else "backbone.pth")
    if there == "link":
        target.rename(tmp_path / "backbone.pth")
        target.symlink_to(tmp_path / "backbone.pth")
    else:
        target.write_text("mine")
    before = _contents(out)
    _refused(command, capsys, str(target), "`radial-vicreg export`", "move it away")
    assert _contents(out) == before


def test_an_export_that_was_killed_between_card_and_weights_is_made_again(
    finished_run: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["export", str(finished_run("standalone")), "--format", "timm", "--out", str(tmp_path)]
    assert main(command) == 0
    (tmp_path / "backbone.pth").write_bytes(b"of another epoch")
    card = json.loads((tmp_path / "card.json").read_text())
    write_json(tmp_path / "card.json", {**card, "sha256": hashlib.sha256(b"of another epoch").hexdigest()})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export, "atomic_file", killed)
        assert main(command) == 130
    assert main(command) == 0
    assert json.loads((tmp_path / "card.json").read_text()).keys() == card.keys()


def test_a_probe_replaces_nothing_but_a_probe(
    run_folder: Path, forbid: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    forbid(offline, "run_features")
    (run_folder / "probes").mkdir()
    (run_folder / "probes" / "knn-encoder.json").write_text("mine")
    _refused(["probe", str(run_folder), "--probe", "knn"], capsys, "probes/knn-encoder.json was not written by")
