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
from radial_vicreg.sweeps import SweepRun, load_sweep
from radial_vicreg.sweeps.evidence import keep_results, refuse_paths_of_this_machine

Run = Callable[..., int]


@pytest.fixture
def runs(small_sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[SweepRun]:
    """The first two runs, in the working directory."""
    monkeypatch.chdir(tmp_path)
    small_sweep.write_text(small_sweep.read_text().replace("[5, 6]", "[5]"))
    return load_sweep(small_sweep).runs()


@pytest.fixture
def sweep(small_sweep: Path, runs: list[SweepRun]) -> Run:
    """Runs ``radial-vicreg sweep`` with the small sweep."""
    return lambda *arguments: cli.main(["sweep", str(small_sweep), "runs_dir=runs", "--evidence", "kept", *arguments])


@pytest.fixture
def trained(runs: list[SweepRun], write_result: Callable[..., Path], started: Any) -> Any:
    """The runs that were trained, each of which leaves results."""

    def finish(log: Path) -> int:
        write_result(runs[int(log.stem)], "finished")
        return 0

    started.then = finish
    return started


def test_results_of_finished_runs_are_kept_and_skipped_on_another_machine(
    sweep: Run, runs: list[SweepRun], trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("--run") == 0
    assert len(trained) == len(runs)
    kept = sorted(Path("kept").glob("*/results.json"))
    assert len(kept) == len(runs)
    for file in kept:
        assert file.read_text().count("\n") == 1
        (original,) = Path("runs", file.parent.name).glob("*/results.json")
        assert json.loads(file.read_text()) == json.loads(original.read_text())
    shutil.rmtree("runs")
    assert sweep("--run") == 0
    assert len(trained) == len(runs)  # nothing was trained again
    capsys.readouterr()
    assert sweep("--status") == 0
    assert f"{len(runs)} finished" in capsys.readouterr().out
    assert cli.main(["runs", "kept"]) == 0
    assert "finished" in capsys.readouterr().out


def test_runs_that_finished_before_are_kept_too(
    sweep: Run, runs: list[SweepRun], trained: Any, write_result: Callable[..., Path]
) -> None:
    for run in runs:
        write_result(run, "finished")
    assert sweep("--run") == 0
    assert trained == []
    assert len(list(Path("kept").glob("*/results.json"))) == len(runs)


def test_a_run_that_is_not_finished_is_not_kept(
    sweep: Run, runs: list[SweepRun], trained: Any, write_result: Callable[..., Path]
) -> None:
    def fail(log: Path) -> int:
        log.write_text("diverged\n")
        write_result(runs[int(log.stem)], "failed")
        return 1

    trained.then = fail
    assert sweep("--run") == 1
    assert list(Path("kept").glob("*/results.json")) == []


def test_a_path_of_this_machine_is_refused_before_the_first_run(
    sweep: Run, trained: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("--run", f"data.val_path={tmp_path}/val") == 2
    one_line(capsys.readouterr().err, f"{tmp_path}/val, a path of this machine", "relative")
    assert trained == []


def test_results_with_a_path_of_this_machine_are_not_kept(
    runs: list[SweepRun], write_result: Callable[..., Path]
) -> None:
    folder = write_result(runs[0], "finished").parent
    content = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps({**content, "note": ["/home/somebody/runs"]}))
    with pytest.raises(UserError, match="contains /home/somebody/runs, a path of this machine"):
        keep_results(folder, Path("kept"))
    assert not Path("kept").exists()


def test_what_is_kept_already_stays(tmp_path: Path) -> None:
    run, kept = tmp_path / "runs" / "vicreg-1" / "20260101-000000", tmp_path / "kept" / "vicreg-1" / "results.json"
    for file, text in ((run / "results.json", '{"new": 1}'), (kept, '{"old": 1}')):
        file.parent.mkdir(parents=True)
        file.write_text(text)
    assert keep_results(run, tmp_path / "kept") == kept
    assert kept.read_text() == '{"old": 1}'


def test_committed_evidence_is_small_and_holds_no_path_of_a_machine() -> None:
    folder = Path(__file__).parents[2] / "docs" / "evidence"
    files = sorted(folder.rglob("*"))
    runs = [file for file in files if file.is_file()]
    assert runs
    assert {file.name for file in runs} == {"results.json"}
    assert sum(file.stat().st_size for file in runs) <= 10 * 2**20
    for file in runs:
        content = json.loads(file.read_text())
        assert content["status"] == "finished"
        refuse_paths_of_this_machine(content, str(file))
