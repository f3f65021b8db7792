"""``kill -9`` anywhere and within the file of a checkpoint: what is left is resumed to the very same end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import TESTS, first_on_path, without

SCRIPT = Path(__file__).with_name("killed_runs.py")
KILLED = -9


@pytest.mark.slow
@pytest.mark.parametrize(("host", "seed"), [("standalone", 1), pytest.param("solo", 2, marks=pytest.mark.solo)])
def test_a_killed_run_goes_on_to_the_same_end(
    host: str, seed: int, run_settings: list[str], tmp_path: Path, run_python: Callable[..., Any]
) -> None:
    settings = without(run_settings, "data.num_workers")  # the configuration's own: four
    arguments = [*settings, f"host={host}", "max_epochs=2", "diagnostics.max_images=4"]
    done = run_python(str(SCRIPT), str(tmp_path), str(seed), *arguments, timeout=3000, PYTHONPATH=first_on_path(TESTS))
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    attempts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(attempts) == 5
    for index, attempt in enumerate(attempts):
        outcome = (attempt["killed"], attempt["resumed"], attempt["compared"])
        assert outcome == (KILLED, 0, 0), f"{attempt}\n{(tmp_path / f'{index}.log').read_text()}"
