"""No command works for minutes and finds then that its output cannot be written, or replaces what is not its own."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import one_line

from radial_vicreg.cli import main
from radial_vicreg.figures import SUFFIXES
from radial_vicreg.io.files import write_json
from radial_vicreg.paper.synthetic.folder import names_of, result_folder

Refused = Callable[..., None]


@pytest.fixture
def run_folder(finished_run: Callable[[str], Path], tmp_path: Path) -> Path:
    """A copy of a finished run of two epochs."""
    return Path(shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that ends in one line, before functions that do its work are called."""

    def run(arguments: list[str], *words: str, before: tuple[str, ...] = ()) -> None:
        def begun(*_: Any, **__: Any) -> None:
            raise AssertionError("the work began before the output was claimed")

        for function in before:
            monkeypatch.setattr(f"radial_vicreg.{function}", begun)
        capsys.readouterr()
        assert main(arguments) == 2
        one_line(capsys.readouterr().err, *words)

    return run


# ---- a place is claimed before the work ----


def test_a_file_in_place_of_a_folder_is_named_before_the_work(
    run_folder: Path, tiny_overrides: list[str], tmp_path: Path, refused: Refused
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    in_the_way = f"{taken} exists and is a file, expected a folder: move it away"
    refused(["report", str(tmp_path), "--out", str(taken)], in_the_way, before=("report.build.collect",))
    refused(["export", str(run_folder), "--out", str(taken)], in_the_way, before=("export.writing.open_run",))
    training = ["pretrain", *tiny_overrides, "host=standalone", f"runs_dir={taken}"]
    refused(training, in_the_way, before=("solo.host.build_standalone", "train.run.open_data"))
    sweep = {"method": "grid", "parameters": {"seed": {"values": [5]}}}
    sweep["command"] = ["x", "--config-name", "radialvicreg", "${args_no_hyphens}"]
    (tmp_path / "one.yaml").write_text(json.dumps(sweep))
    logs = ["sweep", str(tmp_path / "one.yaml"), "--run", *tiny_overrides, f"runs_dir={taken}"]
    refused(logs, "cannot be written", f"{taken} is not a folder")


@pytest.mark.parametrize("there", ["folder", "file"])
def test_a_probe_s_file_is_claimed_before_features_are_extracted(
    there: str, run_folder: Path, refused: Refused
) -> None:
    if there == "folder":
        (run_folder / "probes").touch()
    else:
        write_json(run_folder / "probes" / "knn-encoder.json", "mine")
    said = {"folder": "cannot be written", "file": "was not written by"}[there]
    command = ["probe", str(run_folder), "--probe", "knn"]
    refused(command, f"probes/knn-encoder.json {said}", before=("probes.offline.run_features",))


def test_an_export_without_its_library_leaves_no_folder(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    refused(["export", str(run_folder), "--format", "safetensors"], "pip install safetensors")
    assert not (run_folder / "export").exists()


@pytest.mark.parametrize(
    ("arguments", "place", "before"),
    [
        (["cifar10", "--as-folder"], "out/val", "data.cifar.open_cifar"),
        (["celeba"], "out", "data.celeba._download"),
        (["imagenet10", "--imagenet", "."], "out", "data.prepare.imagenet10._find_classes"),
    ],
    ids=["cifar10", "celeba", "imagenet10"],
)
def test_data_sets_find_what_is_not_theirs_before_the_download(
    arguments: list[str], place: str, before: str, tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "somebody's").touch()
    said = f"{place} exists and was not prepared by this command: choose another --out"
    refused(["data", *arguments, "--out", str(tmp_path / "out")], said, before=(before,))


# ---- what is there already is replaced only where it is the command's own ----


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_diagnosis_keeps_a_figure_that_was_edited_and_moves_that_of_0_2_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {"radial_vicreg": "0", "sources": [], "normal_curves": {}, "normal_draws": 1}
    drawn = {f"diagnose{suffix}": b"drawn" for suffix in SUFFIXES}
    monkeypatch.setattr("radial_vicreg.gaussianity.measure.diagnose", lambda *_: content)  # which takes seconds
    monkeypatch.setattr("radial_vicreg.gaussianity.figure.diagnose_figure", lambda _: None)
    monkeypatch.setattr("radial_vicreg.figures.figure_files", lambda *_: drawn)
    (tmp_path / "z.npy").touch()
    out = tmp_path / "out"
    command = ["diagnose", str(tmp_path / "z.npy"), "--out", str(out)]
    assert main(command) == 0
    (out / "note.txt").write_text("mine")
    assert main(command) == 0
    (out / "diagnose.svg").write_text("edited")
    before = _contents(out)
    refused(command, f"{out}/diagnose.svg has changed since `radial-vicreg diagnose` wrote it")
    assert _contents(out) == before
    (out / "radial_vicreg_diagnose.json").unlink()  # which 0.2 did not write
    assert main(command) == 0
    assert "4 files of an earlier version" in capsys.readouterr().out
    assert [path.read_text() for path in out.glob("replaced-*/diagnose.svg")] == ["edited"]
    assert (out / "diagnose.svg").read_text() == "drawn"
    (out / "radial_vicreg_diagnose.json").unlink()
    (out / "diagnose.json").write_text("{}")
    refused(command, f"{out}/diagnose.json was not written by `radial-vicreg diagnose`")


@pytest.mark.parametrize("ours_before", [False, True])
def test_a_synthetic_run_or_sweep_replaces_nothing_but_its_own(
    ours_before: bool, tmp_path: Path, refused: Refused
) -> None:
    if ours_before:
        for content in (b"first", b"again"):
            result_folder(tmp_path).write(dict.fromkeys(names_of("run"), content))
    name = names_of("run")[0]
    (tmp_path / name).write_text("mine")
    said = (f"{tmp_path / name} ", "`radial-vicreg synthetic`")
    refused(["synthetic", f"out={tmp_path}"], *said, before=("paper.synthetic.run.run",))
    assert (tmp_path / name).read_text() == "mine"
    rows = tmp_path / "sweep" / "results-0-of-1.jsonl"
    rows.parent.mkdir()
    rows.write_text('{"my": "lines"}\n')
    refused(["synthetic", "sweep", "--out", str(rows.parent), "--workers", "1"], f"{rows} was not written by")
    assert rows.read_text() == '{"my": "lines"}\n'


@pytest.mark.parametrize("there", ["card.json", "changed", "link"])
def test_an_export_replaces_nothing_but_an_export(
    there: str, finished_run: Callable[[str], Path], tmp_path: Path, refused: Refused
) -> None:
    out = tmp_path / "out"
    command = ["export", str(finished_run("standalone")), "--format", "timm", "--out", str(out)]
    out.mkdir()
    if there != "card.json":
        assert main(command) == 0
        assert main(command) == 0
    target = out / ("card.json" if there == "card.json" else "backbone.pth")
    if there == "link":
        target.rename(tmp_path / "backbone.pth")
        target.symlink_to(tmp_path / "backbone.pth")
    else:
        target.write_text("mine")
    before = _contents(out)
    refused(command, str(target), "`radial-vicreg export`", "move it away")
    assert _contents(out) == before
