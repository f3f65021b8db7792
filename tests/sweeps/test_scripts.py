"""The shell scripts around sweeps: what they start, with programs of the test's own in place of the real ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from radial_vicreg.compose import compose, run_config
from radial_vicreg.sweeps import load_sweep

BASH = Path(__file__).parents[2] / "bash"
SCRIPTS = sorted([*BASH.glob("sweeps/*.sh"), *BASH.glob("slurm/*.sbatch")])
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

RECORD = '#!/usr/bin/env bash\nprintf "%s\\n" "$@" "--" >> "$CALLS"\n'


@pytest.fixture
def recorder(tmp_path: Path) -> dict[str, str]:
    """An environment whose ``radial-vicreg``, ``srun`` and ``wandb`` note their arguments; the report has a table."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("srun", "scontrol", "wandb", "radial-vicreg"):
        (programs / name).write_text(RECORD + ('exit "${STATUS:-0}"\n' if name == "srun" else ""))
        (programs / name).chmod(0o755)
    tables = 'for n in 1 2 3 4; do echo "| table $n |" > "$4/table$n.md"; done'
    report = f'if [ "$1" = report ]; then mkdir -p "$4"; {tables}; fi\n'
    (programs / "radial-vicreg").write_text(RECORD + report + 'if [ "$1" = sweep ]; then exit "${STATUS:-0}"; fi\n')
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "RUNS": str(tmp_path / "runs"),
        "REPORT": str(tmp_path / "report"),
    }


def run(script: str, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(BASH / script), *arguments], env=environment, capture_output=True, text=True, timeout=60
    )


def calls(environment: dict[str, str]) -> list[list[str]]:
    text = Path(environment["CALLS"]).read_text()
    return [call.splitlines() for call in re.split(r"^--\n", text, flags=re.MULTILINE) if call]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_valid_and_say_how_they_are_used(script: Path) -> None:
    assert subprocess.run(["bash", "-n", str(script)], timeout=60).returncode == 0
    if script.name != "lib.sh":
        text = script.read_text()
        assert text.startswith("#!/usr/bin/env bash\n#")
        assert "set -euo pipefail" in text
        assert os.access(script, os.X_OK)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_tables_script_runs_its_cells_and_prints_the_table(number: int, recorder: dict[str, str]) -> None:
    done = run(f"sweeps/table{number}.sh", "data.num_workers=8", environment=recorder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"| table {number} |"
    sweep, report = calls(recorder)
    assert sweep[:4] == ["sweep", f"tables/table{number}", "--run", "--resume"]
    assert sweep[-1] == "data.num_workers=8"
    assert report == ["report", recorder["RUNS"], "--out", recorder["REPORT"]]
    first = load_sweep(sweep[1]).runs()[0]
    cfg = compose(first.config_name, [*first.overrides, *sweep[4:]])
    assert cfg.runs_dir == recorder["RUNS"]
    assert cfg.data.format == "image_folder"


def test_failed_runs_are_reported_after_the_table(recorder: dict[str, str]) -> None:
    done = run("sweeps/table1.sh", environment={**recorder, "STATUS": "1"})
    assert done.returncode == 1
    assert "| table 1 |" in done.stdout


def test_wrong_overrides_stop_before_the_table(recorder: dict[str, str]) -> None:
    done = run("sweeps/table1.sh", environment={**recorder, "STATUS": "2"})
    assert done.returncode == 2
    assert len(calls(recorder)) == 1


def test_slurm_starts_one_process_for_each_gpu_of_each_node(recorder: dict[str, str]) -> None:
    environment = {**recorder, "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
    cell = "imagenet10/resnet18/radialvicreg_d512"
    assert run("slurm/pretrain.sbatch", "--config-name", cell, environment=environment).returncode == 0
    (call,) = calls(recorder)
    assert call[:5] == ["radial-vicreg", "pretrain", "ckpt=auto", "--config-name", cell]
    assert run_config(compose(cell, call[5:])).processes == 8


def test_a_slurm_array_trains_the_run_of_its_index(recorder: dict[str, str]) -> None:
    environment = {**recorder, "SLURM_ARRAY_TASK_ID": "17"}
    assert run("slurm/sweep.sbatch", "tables/table1", "max_epochs=1", environment=environment).returncode == 0
    (call,) = calls(recorder)
    assert call == ["radial-vicreg", "sweep", "tables/table1", "--index", "17", "--resume", "max_epochs=1"]


@pytest.mark.parametrize(("status", "again"), [("143", True), ("1", False), ("0", False)])
@pytest.mark.parametrize(("script", "job"), [("pretrain", "7"), ("sweep", "5_17")])
def test_a_job_that_was_stopped_by_a_signal_asks_for_another_turn(
    script: str, job: str, status: str, again: bool, recorder: dict[str, str]
) -> None:
    slurm = {"SLURM_NNODES": "1", "SLURM_NTASKS_PER_NODE": "1", "SLURM_JOB_ID": "7"}
    array = {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "17"}
    done = run(f"slurm/{script}.sbatch", "tables/table1", environment={**recorder, **slurm, **array, "STATUS": status})
    assert done.returncode == int(status)
    assert (["requeue", job] in calls(recorder)) == again


def test_slurm_agents_join_the_sweep(recorder: dict[str, str]) -> None:
    assert run("slurm/wandb_agents.sbatch", "ent/proj/id", environment=recorder).returncode == 0
    assert calls(recorder) == [["agent", "ent/proj/id"]]


@pytest.mark.parametrize("script", ["pretrain", "sweep", "wandb_agents"])
def test_without_arguments_slurm_scripts_say_what_is_missing(script: str, recorder: dict[str, str]) -> None:
    done = run(f"slurm/{script}.sbatch", environment=recorder)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: sbatch")
