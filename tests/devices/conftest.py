"""Fixtures of the tests of devices that this machine does not have."""

from __future__ import annotations

import pytest
import torch
from stand_in import DeviceGenerator

from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.runtime import random_state
from radial_vicreg.train.loss import CustomLoss
from radial_vicreg.train.module import PretrainingModule


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> DeviceGenerator:
    """Augmentations of whole batches, the network and custom losses draw from a stand-in for a GPU's generator."""
    stand_in = DeviceGenerator()
    for owner, name in ((BatchAugmentation, "__call__"), (PretrainingModule, "forward"), (CustomLoss, "forward")):
        monkeypatch.setattr(owner, name, stand_in.on_device(getattr(owner, name)))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", stand_in.generator.manual_seed)
    monkeypatch.setattr(random_state, "device_generator", lambda device: stand_in.generator)
    return stand_in
