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
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

RECORD = '#!/usr/bin/env bash\nprintf "%s\\n" "$@" "--" >> "$CALLS"\n'


@pytest.fixture
def recorder(tmp_path: Path) -> dict[str, str]:
    """An environment whose ``radial-vicreg``, ``srun`` and ``wandb`` note their arguments; the report has a table."""
    tables = 'for n in 1 2 3 4; do echo "| table $n |" > "$4/table$n.md"; done'
    ends = 'exit "${STATUS:-0}"'
    programs = {
        "srun": f"{ends}\n",
        "scontrol": "",
        "wandb": "",
        "radial-vicreg": f'case $1 in report) mkdir -p "$4"; {tables};; sweep) {ends};; esac\n',
    }
    (tmp_path / "bin").mkdir()
    for name, script in programs.items():
        (tmp_path / "bin" / name).write_text(RECORD + script)
        (tmp_path / "bin" / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(tmp_path / "calls"),
        "RUNS": str(tmp_path / "runs"),
        "REPORT": str(tmp_path / "report"),
        "SLURM_NNODES": "1",
        "SLURM_NTASKS_PER_NODE": "1",
        "SLURM_ARRAY_TASK_ID": "17",
    }


def run(script: str, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(BASH / script), *arguments], env=environment, capture_output=True, text=True, timeout=60
    )


def calls(environment: dict[str, str]) -> list[list[str]]:
    text = Path(environment["CALLS"]).read_text()
    return [call.splitlines() for call in re.split(r"^--\n", text, flags=re.MULTILINE) if call]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_tables_script_runs_its_cells_and_prints_the_table(number: int, recorder: dict[str, str]) -> None:
    done = run(f"sweeps/table{number}.sh", "data.num_workers=8", environment=recorder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"| table {number} |"
    sweep, report = calls(recorder)
    assert sweep[:3] == ["sweep", f"tables/table{number}", "--run"]
    assert sweep[-1] == "data.num_workers=8"
    assert report == ["report", recorder["RUNS"], "--out", recorder["REPORT"]]
    first = load_sweep(sweep[1]).runs()[0]
    cfg = compose(first.config_name, [*first.overrides, *sweep[3:]])
    assert cfg.runs_dir == recorder["RUNS"]
    assert cfg.data.format == "image_folder"


@pytest.fixture
def without_path(recorder: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The recorder with ``radial-vicreg`` off the PATH, in the virtual environment ``venv`` beside it."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "bin" / "radial-vicreg").rename(tmp_path / "venv" / "bin" / "radial-vicreg")
    path = f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"
    if shutil.which("radial-vicreg", path=path) is not None:
        pytest.skip("radial-vicreg is installed for the whole system")
    return {**recorder, "PATH": path, "VENV": str(tmp_path / "venv")}


@pytest.mark.parametrize(
    ("script", "arguments"),
    [("sweeps/table1.sh", []), ("slurm/pretrain.sbatch", ["--config-name", "quickstart"])],
)
def test_scripts_find_the_environment_of_the_quickstart(
    script: str, arguments: list[str], without_path: dict[str, str]
) -> None:
    done = run(script, *arguments, environment=without_path)
    assert done.returncode == 0, done.stderr
    assert {"sweep", "pretrain"} & {word for call in calls(without_path) for word in call}


def test_a_script_without_any_program_says_where_it_looked(without_path: dict[str, str], tmp_path: Path) -> None:
    done = run("sweeps/table1.sh", environment={**without_path, "VENV": str(tmp_path / "gone")})
    assert done.returncode == 2
    assert f"neither on PATH nor in {tmp_path / 'gone'}/bin/radial-vicreg: run bash/quickstart.sh" in done.stderr


def test_the_quickstart_ends_with_commands_that_can_be_copied(without_path: dict[str, str], tmp_path: Path) -> None:
    runs = tmp_path / "my runs"
    programs = tmp_path / "venv" / "bin"
    (programs / "activate").write_text(f'export PATH="{programs}:$PATH"\n')
    for name in ("python", "radial-vicreg"):
        (programs / name).write_text(RECORD)
        (programs / name).chmod(0o755)
    figure = f'mkdir -p "{runs}/a"; touch "{runs}/a/comparison.png"'
    (programs / "radial-vicreg").write_text(RECORD + f'if [ "$1" = try ]; then {figure}; fi\n')
    done = run("quickstart.sh", f"runs_dir={runs}", environment=without_path)
    assert done.returncode == 0, done.stderr
    *_, activate, look, again, _ = done.stdout.splitlines()
    assert look.strip() == f'python -m webbrowser "file://{runs}/a/comparison.png"'
    Path(without_path["CALLS"]).unlink()
    copied = "set -e\n" + "\n".join((activate, look, again))
    assert subprocess.run(["bash", "-c", copied], env=without_path, cwd=tmp_path, timeout=60).returncode == 0
    (viewed, trained) = calls(without_path)
    assert viewed[:2] == ["-m", "webbrowser"]
    method = "radialvicreg/method=radialvicreg_mean"
    assert trained == ["pretrain", "--config-name", "quickstart", method, "max_epochs=20"]


@pytest.mark.parametrize(("status", "reported"), [("1", True), ("3", True), ("2", False), ("143", False)])
def test_failed_runs_are_reported_and_wrong_overrides_and_signals_stop_before_the_table(
    status: str, reported: bool, recorder: dict[str, str]
) -> None:
    done = run("sweeps/table1.sh", environment={**recorder, "STATUS": status})
    assert done.returncode == int(status)
    assert ("| table 1 |" in done.stdout) == reported
    assert len(calls(recorder)) == 1 + reported


def test_slurm_starts_one_process_for_each_gpu_of_each_node(recorder: dict[str, str]) -> None:
    environment = {**recorder, "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
    cell = "imagenet10/resnet18/radialvicreg_d512"
    assert run("slurm/pretrain.sbatch", "--config-name", cell, environment=environment).returncode == 0
    (call,) = calls(recorder)
    assert call[:5] == ["radial-vicreg", "pretrain", "ckpt=auto", "--config-name", cell]
    assert run_config(compose(cell, call[5:])).processes == 8


def test_a_slurm_array_trains_the_run_of_its_index(recorder: dict[str, str], tmp_path: Path) -> None:
    environment = {**recorder, "SLURM_SUBMIT_DIR": str(tmp_path)}
    assert run("slurm/sweep.sbatch", "tables/table1", "max_epochs=1", environment=environment).returncode == 0
    (call,) = calls(recorder)
    assert call == ["radial-vicreg", "sweep", "tables/table1", "--index", "17", "--no-wait", "max_epochs=1"]


@pytest.mark.parametrize(
    ("script", "job", "status", "again"),
    [
        ("pretrain", "7", "143", True),
        ("sweep", "5_17", "143", True),
        ("pretrain", "7", "1", False),
        ("sweep", "5_17", "0", False),
    ],
)
def test_a_job_that_was_stopped_by_a_signal_asks_for_another_turn(
    script: str, job: str, status: str, again: bool, recorder: dict[str, str]
) -> None:
    job_ids = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5"}
    done = run(f"slurm/{script}.sbatch", "tables/table1", environment={**recorder, **job_ids, "STATUS": status})
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
