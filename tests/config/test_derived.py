"""What is worked out from a configuration: processes and rates."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from configs import make_config


def test_devices_are_counted_in_every_spelling() -> None:
    for devices, nodes, expected in [
        ([0], 1, 1),
        ([0, 1], 1, 2),
        ([0, 3], 2, 4),
        (2, 1, 2),
        ("1", 1, 1),
        ("4", 2, 8),
        ("0,1,2", 1, 3),
        ("0,", 1, 1),
        ("auto", 1, 1),
        (-1, 1, 1),
        (3, None, 3),
    ]:
        config = make_config(devices=devices, num_nodes=nodes)
        assert config.processes == expected
        assert config.local_processes == expected // (nodes or 1)
        assert config.global_batch == 4 * expected


@pytest.mark.parametrize(("accelerator", "expected"), [("auto", 3), ("gpu", 3), ("cpu", 1)])
@pytest.mark.parametrize("devices", ["auto", -1])
def test_all_devices_are_the_gpus_unless_the_cpu_trains(
    monkeypatch: pytest.MonkeyPatch, devices: Any, accelerator: str, expected: int
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert make_config(devices=devices, accelerator=accelerator).processes == expected


def test_rates_scale_with_batch_devices_and_accumulation() -> None:
    for val_path, accumulate, lr, classifier_lr in [
        ("val", None, 0.6, 0.2),
        (None, None, 0.6, 0.1),
        ("val", 4, 2.4, 0.8),
        (None, 4, 2.4, 0.4),
    ]:
        config = make_config(
            optimizer__batch_size=256, devices=[0, 1], data__val_path=val_path, accumulate_grad_batches=accumulate
        )
        assert config.rates == pytest.approx((lr, classifier_lr))
        assert config.optimizer.lr == 0.3, "the configuration must stay as written"
