"""Results that outlive their machine: kept without weights, and counted as finished."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import one_line

from radial_vicreg import cli
from radial_vicreg.errors import UserError
from radial_vicreg.sweeps import SweepRun
from radial_vicreg.sweeps.evidence import keep_results, refuse_paths_of_this_machine

Run = Callable[..., int]


@pytest.fixture
def keep(small_sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the small sweep in its folder, without a path of this machine, and keeps its results."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli.main(["sweep", str(small_sweep), "runs_dir=runs", "--evidence", "kept", *words])


def kept() -> list[Path]:
    return sorted(Path("kept").glob("*/results.json"))


def test_results_of_finished_runs_are_kept_and_skipped_on_another_machine(
    keep: Run, runs: list[SweepRun], trained: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keep("--run") == 0
    assert len(trained) == len(kept()) == len(runs)
    for file in kept():
        assert file.read_text().count("\n") == 1
        (original,) = Path("runs", file.parent.name).glob("*/results.json")
        assert json.loads(file.read_text()) == json.loads(original.read_text())
    shutil.rmtree("runs")
    assert keep("--run") == 0
    assert len(trained) == len(runs)  # nothing was trained again
    capsys.readouterr()
    assert keep("--status") == 0
    assert f"{len(runs)} finished" in capsys.readouterr().out
    assert cli.main(["runs", "kept"]) == 0
    assert "finished" in capsys.readouterr().out


def test_runs_that_finished_before_are_kept_too_and_a_failed_one_is_not(
    keep: Run, runs: list[SweepRun], started: Any, write_result: Callable[..., Path]
) -> None:
    def fail(log: Path) -> int:
        log.write_text("diverged\n")
        write_result(runs[int(log.stem)], "failed")
        return 1

    started.then = fail
    write_result(runs[0], "finished")
    assert keep("--run") == 1
    assert len(started) == 1
    assert [file.parent.name for file in kept()] == ["run-0"]


def test_a_path_of_this_machine_is_refused_before_the_first_run(
    keep: Run, started: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert keep("--run", f"data.val_path={tmp_path}/val") == 2
    one_line(capsys.readouterr().err, f"{tmp_path}/val, a path of this machine", "relative")
    assert started == []


def test_results_with_a_path_of_this_machine_are_not_kept_and_what_is_kept_already_stays(
    runs: list[SweepRun], write_result: Callable[..., Path], tmp_path: Path
) -> None:
    folder = write_result(runs[0], "finished", note=["/home/somebody/runs"]).parent
    with pytest.raises(UserError, match="contains /home/somebody/runs, a path of this machine"):
        keep_results(folder, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    folder = write_result(runs[0], "finished").parent
    file = keep_results(folder, tmp_path / "kept")
    before = file.read_text()
    write_result(runs[0], "finished", epochs=7)
    assert keep_results(folder, tmp_path / "kept") == file
    assert file.read_text() == before


def test_committed_evidence_is_small_and_holds_no_path_of_a_machine() -> None:
    folder = Path(__file__).parents[2] / "docs" / "evidence"
    runs = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    assert {file.name for file in runs} == {"results.json"}
    assert sum(file.stat().st_size for file in runs) <= 10 * 2**20
    for file in runs:
        content = json.loads(file.read_text())
        assert content["status"] == "finished"
        refuse_paths_of_this_machine(content, str(file))
