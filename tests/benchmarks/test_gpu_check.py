"""The GPU check on a CPU: every stage leaves what it found, and whatever happens to one does not touch the others."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks import gpu_check, gpu_stages
from benchmarks.gpu_runs import RUNS, Found, Job, Skipped
from radial_vicreg.compose import compose, run_config
from radial_vicreg.train.run import prepare

#: What a CPU cannot show.
NEED_GPU = {
    "tests": 1,
    "precision": 2,
    "processes": 1,
    "waits": 3,
    "speed": 1,
    "dali": 1,
}


def job(tmp_path: Path, device: str = "cuda", stage: str = "stage") -> Job:
    return Job(stage, tmp_path, tmp_path, device)


@pytest.mark.slow  # each composition takes a quarter of a second
def test_every_run_could_start_and_is_what_its_stage_names(tmp_path: Path) -> None:
    """On a CPU :func:`test_every_stage_runs_on_a_cpu` starts them."""
    found = {}
    for name, run in RUNS.items():
        overrides = [*job(tmp_path, "cuda").overrides(name), "accelerator=cpu"]
        found[name] = run_config(compose(run.config_name, overrides))
        if not name.startswith("dali"):  # of solo-learn's script
            prepare(found[name])
    assert [found[f"waits {kind}"].data.format for kind in ("folder", "device")] == ["image_folder", "device"]
    assert found["waits VICReg"].method == "vicreg"
    assert found["resume folder"].precision == "16-mixed"  # the default on a GPU
    assert found["resume lejepa"].method == "lejepa"
    assert found["resume drop_path"].backbone.arguments()["drop_path_rate"] > 0
    assert found["study"].method == "radialvicreg"
    assert all(found[name].has_small_stem for name in ("study", "speed folder", "speed device"))


def test_the_stages_are_those_with_a_limit_and_take_twelve_minutes() -> None:
    assert list(gpu_check.LIMITS) == list(gpu_stages.STAGES)
    assert sum(gpu_check.LIMITS.values()) == 12 * 60


def test_a_check_that_fails_or_is_skipped_is_recorded_and_the_next_one_runs(tmp_path: Path) -> None:
    def fail() -> Found:
        raise ValueError("this one is wrong")

    def skip() -> Found:
        raise Skipped("no GPU")

    checks = job(tmp_path)
    checks.check("first", fail)
    checks.check("second", skip)
    checks.check("third", lambda: Found("all of it", True))
    checks.check("fourth", lambda: Found("half of it", False))
    written = json.loads((tmp_path / "stage.json").read_text())
    assert [check["outcome"] for check in written.values()] == ["FAILED", "skipped: no GPU", "passed", "FAILED"]
    assert written["first"]["said"] == "ValueError: this one is wrong"
    assert "test_gpu_check.py" in written["first"]["values"]  # its traceback
    stage = {"status": "done", "seconds": 1.0, "checks": written}
    rows = gpu_check.table({"stages": {"stage": stage}}).splitlines()[2:]
    assert [[cell.strip() for cell in row.split("|")[1:5]] for row in rows][2:] == [
        ["stage", "third", "passed", "all of it"],
        ["stage", "fourth", "FAILED", "half of it"],
    ]


#: Stands for a stage that never ends once it has found something.
HANGS = """
import json, pathlib, signal, sys
print("still working", flush=True)
check = {"outcome": "passed", "said": "", "seconds": 0.0, "values": None}
path = pathlib.Path(sys.argv[sys.argv.index("--out") + 1], "resume.json")
path.with_suffix(".new").write_text(json.dumps({"folder": check}))
path.with_suffix(".new").rename(path)
signal.pause()
"""


def test_a_stage_that_is_stopped_at_its_limit_or_dies_leaves_its_checks_and_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = gpu_check.parse(["--out", str(tmp_path), "--device", "cpu"])
    monkeypatch.setattr(gpu_check, "STAGE_COMMAND", [sys.executable, "-c", "raise SystemExit('dead')"])
    assert gpu_check.run_stage("tests", 60.0, options, tmp_path)["status"] == "FAILED: exit status 1, see tests.log"
    assert (tmp_path / "tests.log").read_text() == "dead\n"

    (tmp_path / "hangs.py").write_text(HANGS)
    monkeypatch.setattr(gpu_check, "STAGE_COMMAND", [sys.executable, str(tmp_path / "hangs.py")])
    real = subprocess.Popen.wait

    def wait(self: Any, timeout: float | None = None) -> int:
        if timeout is None:
            return real(self)
        while not (tmp_path / "resume.json").is_file():
            assert self.poll() is None
        raise subprocess.TimeoutExpired("stage", timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)
    stage = gpu_check.run_stage("resume", 60.0, options, tmp_path)
    assert stage["status"] == "STOPPED after 60 s"
    assert stage["checks"]["folder"]["outcome"] == "passed"
    assert (tmp_path / "resume.log").read_text() == "still working\n"
    assert "STOPPED after 60 s" in gpu_check.table({"stages": {"resume": stage}})


def test_a_difference_of_one_weight_is_seen(tmp_path: Path) -> None:
    for name, value in (("first", 1.0), ("second", 1.0 + 2**-20)):
        weights = {"a": torch.ones(3), "b": torch.tensor([0.0, value])}
        torch.save({"state_dict": weights, "optimizer_states": [{"state": {0: torch.ones(2)}}]}, tmp_path / name)
    assert gpu_stages._different(tmp_path / "first", tmp_path / "first") == ([], 3)
    assert gpu_stages._different(tmp_path / "first", tmp_path / "second") == (["9.5e-07"], 3)


class StageHere:
    """Runs a stage in this process in place of a new one: half of a small stage's time is its imports."""

    def __init__(self, command: list[str], stdout: Any, **_: Any) -> None:
        self.arguments, self.log, self.returncode = command[len(gpu_check.STAGE_COMMAND) :], stdout, 0

    def wait(self, timeout: float | None = None) -> int:
        with contextlib.redirect_stdout(self.log):
            gpu_stages.main(self.arguments)
        return 0


@pytest.mark.slow
def test_every_stage_runs_on_a_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(gpu_check.ROOT)
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    names = {"Popen": StageHere, "STDOUT": None, "TimeoutExpired": subprocess.TimeoutExpired}
    monkeypatch.setattr(gpu_check, "subprocess", SimpleNamespace(**names))
    monkeypatch.setattr(gpu_check, "_end_group", lambda stage: None)
    try:
        assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path), "--minutes", "60"]) == 0
    finally:
        torch.use_deterministic_algorithms(False)  # which a run asks for
    printed = capsys.readouterr().out
    content = json.loads((tmp_path / "gpu_check.json").read_text())
    assert {name: stage["status"] for name, stage in content["stages"].items()} == dict.fromkeys(
        gpu_check.LIMITS, "done"
    )
    outcomes = {
        name: [check["outcome"] for check in stage["checks"].values()] for name, stage in content["stages"].items()
    }
    assert {name: found.count("skipped: no GPU") for name, found in outcomes.items()} == dict.fromkeys(
        gpu_check.LIMITS, 0
    ) | NEED_GPU
    hours = content["stages"]["study"]["checks"]["cell and hours"]["values"]["hours"]
    assert hours["study_full"] > hours["study_full_tune"] > hours["study_full_short"] > 0
    assert content["stages"]["speed"]["checks"]["device"]["values"]["images_per_second"] > 0
    for name in gpu_check.LIMITS:
        assert f"| {name} " in printed
        assert (tmp_path / f"{name}.log").is_file()
    assert "| study " in (tmp_path / "gpu_check.md").read_text()
