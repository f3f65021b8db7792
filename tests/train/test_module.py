"""Both hosts give the optimizer solo-learn's parameter groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import HOSTS, read_results

from radial_vicreg.runs.checkpoints import find_checkpoint


@pytest.mark.parametrize("host", HOSTS)
def test_the_classifier_has_its_own_rate_and_no_decay(host: str, finished_run: Callable[[str], Path]) -> None:
    run = finished_run(host)
    asked = read_results(run)["config"]["optimizer"]
    (optimizer,) = torch.load(find_checkpoint(run), weights_only=True)["optimizer_states"]
    groups = optimizer["param_groups"]
    of_the_classifier = [group for group in groups if group["name"].startswith("classifier")]
    others = [group for group in groups if group not in of_the_classifier]
    assert of_the_classifier
    assert {group["weight_decay"] for group in of_the_classifier} == {0}
    assert asked["weight_decay"] > 0
    assert asked["weight_decay"] in {group["weight_decay"] for group in others}
    ratio = asked["classifier_lr"] / asked["lr"]
    assert ratio != 1
    for group in of_the_classifier:
        assert group["initial_lr"] == pytest.approx(ratio * others[0]["initial_lr"])
