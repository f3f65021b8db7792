"""A stand-in for the random numbers of a GPU, on machines without one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.runtime import random_state
from radial_vicreg.train.loss import CustomLoss
from radial_vicreg.train.module import PretrainingModule


class DeviceGenerator:
    """A second generator, from which everything draws that would run on a GPU.

    Attributes:
        generator: the stand-in for the GPU's default generator.
        draws: how often its state was changed by drawing from it.
    """

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(3)
        self.draws = 0
        self._inside = False

    def on_device(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Let a function draw from the stand-in: it takes the place of the CPU's generator meanwhile."""

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if self._inside:
                return function(*arguments, **keywords)
            of_cpu, before = torch.default_generator.get_state(), self.generator.get_state()
            torch.default_generator.set_state(before)
            self._inside = True
            try:
                return function(*arguments, **keywords)
            finally:
                self._inside = False
                self.generator.set_state(torch.default_generator.get_state())
                self.draws += not torch.equal(before, self.generator.get_state())
                torch.default_generator.set_state(of_cpu)

        return call


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> DeviceGenerator:
    """Augmentations of whole batches, the network and custom losses draw from a stand-in for a GPU's generator."""
    stand_in = DeviceGenerator()
    for owner, name in ((BatchAugmentation, "__call__"), (PretrainingModule, "forward"), (CustomLoss, "forward")):
        monkeypatch.setattr(owner, name, stand_in.on_device(getattr(owner, name)))
    monkeypatch.setattr(torch.cuda, "manual_seed_all", stand_in.generator.manual_seed)
    monkeypatch.setattr(random_state, "device_generator", lambda device: stand_in.generator)
    return stand_in
