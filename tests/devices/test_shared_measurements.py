"""Radii and the frozen probe of several processes: shared, and those of one process."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import only_run, read_results


@pytest.mark.slow
def test_two_processes_measure_what_one_measures(
    finished_run: Callable[[str], Path],
    tiny_overrides: list[str],
    tmp_path: Path,
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    settings = ["host=standalone", "devices=2", "strategy=ddp", "optimizer.batch_size=4", "probes.frozen_linear=true"]
    done = run_python("-m", "radial_vicreg.cli", "pretrain", *tiny_overrides, *settings)
    assert done.returncode == 0, done.stderr
    found, expected = read_results(only_run(tmp_path / "runs")), read_results(finished_run("standalone"))
    assert found["processes"] == 2
    assert found["probes"]["frozen_linear"]["untrained"] == expected["probes"]["frozen_linear"]["untrained"]
    for mode in ("eval", "batch"):  # of the untrained network, which is the same
        assert found["radii"]["initial"][mode] == pytest.approx(expected["radii"]["initial"][mode], rel=1e-5)
