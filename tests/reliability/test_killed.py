"""``kill -9`` anywhere and within the file of a checkpoint: what is left is resumed to the very same end."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from helpers import without


@pytest.mark.slow
@pytest.mark.parametrize(("host", "seed"), [("standalone", 1), pytest.param("solo", 2, marks=pytest.mark.solo)])
def test_a_killed_run_goes_on_to_the_same_end(
    host: str, seed: int, run_settings: list[str], kill_and_resume: Callable[..., list[str]]
) -> None:
    settings = without(run_settings, "data.num_workers")  # the configuration's own: four
    rng = random.Random(seed)
    moments = [*(["call", rng.random()] for _ in range(3)), *(["file", nth, rng.random()] for nth in (1, 2))]
    kill_and_resume([*settings, f"host={host}", "max_epochs=2", "diagnostics.max_images=4"], moments)
