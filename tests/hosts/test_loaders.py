"""The training loader."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import Dataset

from radial_vicreg.data.loader import build_train_loader


class Noise(Dataset):
    """Twenty samples with a random number each, as an augmentation would draw one."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        return index, torch.rand(())


def cfg(**changes: Any) -> DictConfig:
    base = {
        "seed": 3,
        "devices": 1,
        "accelerator": "cpu",
        "data": {"num_workers": 0, "train_path": "somewhere"},
        "optimizer": {"batch_size": 4},
    }
    return OmegaConf.merge(base, changes)  # type: ignore[return-value]


def epoch(loader: Any, number: int) -> tuple[list[int], list[float]]:
    loader.sampler.set_epoch(number)  # as Lightning does
    batches = list(loader)
    indexes = torch.cat([batch[0] for batch in batches]).tolist()
    return indexes, torch.cat([batch[1] for batch in batches]).tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_is_the_same_whatever_ran_before_it(workers: int) -> None:
    settings = cfg(data={"num_workers": workers, "train_path": "somewhere"})
    through = build_train_loader(settings, Noise())
    first, second = epoch(through, 0), epoch(through, 1)
    resumed = build_train_loader(settings, Noise())
    again = epoch(resumed, 1)
    assert again[0] == second[0] != first[0]
    assert sorted(second[0]) == list(range(20))
    if workers:  # in the main process the augmentations draw from the global generator, which EpochSeed seeds
        assert again[1] == second[1]


def test_another_seed_gives_another_order() -> None:
    assert epoch(build_train_loader(cfg(seed=4), Noise()), 0)[0] != epoch(build_train_loader(cfg(), Noise()), 0)[0]


def test_an_incomplete_last_batch_is_dropped() -> None:
    assert len(build_train_loader(cfg(optimizer={"batch_size": 8}), Noise())) == 2


@pytest.mark.parametrize(
    ("batch_size", "devices", "fits"),
    [(20, [0], True), (21, [0], False), (10, [0, 1], True), (11, [0, 1], False)],
)
def test_the_training_set_must_hold_a_batch_per_process(batch_size: int, devices: list[int], fits: bool) -> None:
    settings = cfg(optimizer={"batch_size": batch_size}, devices=devices)
    if fits:
        assert build_train_loader(settings, Noise()).batch_size == batch_size
        return
    message = rf"data.train_path=somewhere.*20 images.*batch of {batch_size} .*{len(devices)} proc"
    with pytest.raises(ValueError, match=message):
        build_train_loader(settings, Noise())
