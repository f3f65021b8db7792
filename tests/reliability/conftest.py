"""Fixtures of the tests of interrupted runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers import TESTS, Pretrain, first_on_path, pretrainer

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_settings(tiny_overrides: list[str]) -> list[str]:
    """``pretrain`` with everything that draws random numbers: the Wasserstein objective, a kNN bank."""
    more = ["method_kwargs.radial_objective=wasserstein", "probes.encoder_knn=true", "max_epochs=3"]
    return ["pretrain", *tiny_overrides, *more, "diagnostics.every_n_epochs=2"]


@pytest.fixture
def pretrain(run_settings: list[str], capsys: pytest.CaptureFixture[str]) -> Pretrain:
    """:func:`helpers.pretrainer` with these."""
    return pretrainer(run_settings[1:], capsys)


@pytest.fixture
def kill_and_resume(run_python: Run, tmp_path: Path) -> Callable[..., list[str]]:
    """Kill a run at each of some moments (see killed_runs.py), and resume it to the end of one that was never killed.

    Returns what each printed.
    """

    def run(arguments: Sequence[str], moments: Sequence[Sequence[Any]], processes: int = 1) -> list[str]:
        script = str(Path(__file__).with_name("killed_runs.py"))
        command = [script, str(tmp_path), str(processes), json.dumps(moments), *arguments]
        done = run_python(*command, timeout=3000, PYTHONPATH=first_on_path(TESTS))
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"moment"')]
        assert [outcome["moment"] for outcome in found] == [list(moment) for moment in moments]
        for outcome in found:
            ended = outcome["killed"], outcome["resumed"], outcome["compared"]
            assert ended == ([-9] * processes, [0] * processes, 0), f"{outcome['moment']}: {ended}\n{outcome['log']}"
        return [outcome["log"] for outcome in found]

    return run
