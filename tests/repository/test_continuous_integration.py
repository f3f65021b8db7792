"""Public CI calls the scripts of ``bash/``, and ``bash/test.sh`` makes the environment that it was asked for."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import yaml

REPOSITORY = Path(__file__).parents[2]
WORKFLOWS = sorted(REPOSITORY.glob(".github/workflows/*.yml"))

# A Python of the test's own: it can be asked for its version, makes environments, and notes whatever else it is to run.
PYTHON = """#!/usr/bin/env bash
case "$*" in
  *ensurepip*) [ -z "${BROKEN:-}" ] ;;
  *version_info\\[*) echo 9.9 ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m "*) echo "$PIP_CONSTRAINT:$0 $*" >> "$CALLS" ;;
  *lowest.py*) echo constraints ;;
esac
"""


def test_a_job_calls_one_script_of_this_repository() -> None:
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text())["jobs"].items():
            commands = [step["run"] for step in job["steps"] if "run" in step]
            assert len(commands) == 1, (path, name)
            (script,) = re.findall(r"^bash (bash/\w+\.sh)\b", commands[0])
            assert (REPOSITORY / script).is_file(), f"{script} is not there"
            assert job["timeout-minutes"] <= 150


def test_actions_are_pinned_to_one_commit_whose_release_is_named() -> None:
    used = {line for path in WORKFLOWS for line in re.findall(r"uses: (.*)", path.read_text())}
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert len({action.partition("@")[0] for action in used}) == len(used)


def test_the_tests_run_on_every_declared_python_and_the_next() -> None:
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    declared = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text())
    assert workflow["jobs"]["tests"]["strategy"]["matrix"]["python"] == [*declared, "3.14"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the scripts and ``setup.cfg``, and a Python 9.9 beside it."""
    folder = tmp_path / "checkout"
    shutil.copytree(REPOSITORY / "bash", folder / "bash")
    shutil.copy(REPOSITORY / "setup.cfg", folder)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python9.9").write_text(PYTHON)
    (tmp_path / "bin" / "python9.9").chmod(0o755)
    return folder


def run_tests(checkout: Path, *arguments: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run ``bash/test.sh`` there; give what it said, and what Python was asked to run as ``constraints:command``."""
    kept = {name: value for name, value in os.environ.items() if name not in ("VENV", "PYTHON", "PIP_CONSTRAINT")}
    environment = {
        **kept,
        "PATH": f"{checkout.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "CALLS": str(checkout / "calls"),
        "PIP_CONSTRAINT": "",
        **variables,
    }
    command = ["bash", str(checkout / "bash" / "test.sh"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    calls = checkout / "calls"
    return done, calls.read_text().splitlines() if calls.exists() else []


@pytest.mark.parametrize(
    ("choices", "environment"),
    [
        (["--python", "9.9"], ".venv-9.9"),
        (["--without-solo", "--python", "9.9"], ".venv-without-solo-9.9"),
        (["--python", "9.9", "--lowest"], ".venv-lowest-9.9"),
    ],
)
def test_each_choice_has_an_environment_of_its_own(choices: list[str], environment: str, checkout: Path) -> None:
    done, calls = run_tests(checkout, *choices, "--slow", "tests/losses")
    assert done.returncode == 0, done.stderr
    python = f"{environment}/bin/python -m"
    (constraints, install), *_, (_, tests) = [call.split(":", 1) for call in calls]
    assert install.startswith(f"{python} pip install")
    assert tests.startswith(f"{python} pytest")
    assert tests.endswith(" --slow tests/losses")
    assert bool(constraints) == ("--lowest" in choices)


def test_solo_learn_is_left_out_when_asked_and_a_path_is_a_python_too(checkout: Path) -> None:
    with_it, calls = run_tests(checkout, "--python", str(checkout.parent / "bin" / "python9.9"))
    assert calls[-1].startswith(":.venv-9.9/bin/python -m pytest")
    without_it, _ = run_tests(checkout, "--python", "9.9", "--without-solo")
    assert "solo-learn" in with_it.stdout
    assert "solo-learn" not in without_it.stdout


def test_an_environment_of_another_tool_is_left_alone(checkout: Path) -> None:
    python = checkout / ".venv-9.9" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n")  # uv's environments have no pip
    python.chmod(0o755)
    done, calls = run_tests(checkout, "--python", "9.9")
    assert (done.returncode, calls) == (2, [])
    assert ".venv-9.9 has no pip, so another tool has made it" in done.stderr


def test_pyenvs_python_is_taken_where_the_one_on_path_does_not_run(checkout: Path, tmp_path: Path) -> None:
    home = tmp_path / "pyenv" / "versions" / "8.8.1" / "bin"
    home.mkdir(parents=True)
    shutil.copy(tmp_path / "bin" / "python9.9", home / "python")
    shim = tmp_path / "bin" / "python8.8"
    shim.write_text("#!/bin/sh\necho 'pyenv: python8.8: command not found' >&2; exit 127\n")
    shim.chmod(0o755)
    done, calls = run_tests(checkout, "--python", "8.8", PYENV_ROOT=str(tmp_path / "pyenv"))
    assert done.returncode == 0, done.stderr
    assert calls


def test_a_python_that_is_not_there_or_makes_no_environments_is_told_in_one_line(checkout: Path) -> None:
    for arguments, broken in ((["--python", "7.7"], ""), (["--lowest", "--python"], ""), (["--python", "9.9"], "yes")):
        done, calls = run_tests(checkout, *arguments, BROKEN=broken)
        assert done.returncode != 0
        assert len(done.stderr.splitlines()) == 1
        assert "python" in done.stderr.lower()
        assert not calls
        assert not list(checkout.glob(".venv*"))
    assert "no Python 9.9 that runs and has venv" in done.stderr
