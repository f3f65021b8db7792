"""Fixtures of the hosts' tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig, OmegaConf, open_dict
from torch.utils.data import DataLoader, Dataset

from radial_vicreg.compose import compose


class FixedBatches(Dataset):
    """Two-view samples that do not change: what both hosts get, bit for bit."""

    def __init__(self, count: int, size: int, classes: int, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(11)
        self.views = torch.randn(2, count, 3, size, size, generator=generator).to(dtype)
        self.labels = torch.arange(count) % classes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[int, list[torch.Tensor], int]:
        return index, [self.views[0, index], self.views[1, index]], int(self.labels[index])


@pytest.fixture
def fixed_loader() -> Callable[..., DataLoader]:
    def make(
        batches: int = 10, batch_size: int = 8, size: int = 32, classes: int = 3, dtype: torch.dtype = torch.float32
    ):  # type: ignore[no-untyped-def]
        return DataLoader(FixedBatches(batches * batch_size, size, classes, dtype), batch_size=batch_size)

    return make


@pytest.fixture
def tiny_cfg(tiny_overrides: list[str]) -> Callable[..., DictConfig]:
    """A composed configuration cut down to 16 dimensions and small images, open for new keys."""

    def make(*overrides: str, config: str = "radialvicreg") -> DictConfig:
        cfg = compose(config, [*tiny_overrides, "diagnostics.enabled=false", *overrides])
        OmegaConf.set_struct(cfg, False)
        with open_dict(cfg):
            cfg.performance = {"disable_channel_last": True}
        return cfg

    return make


@pytest.fixture
def quiet_trainer(tmp_path: Path) -> Callable[..., object]:
    def make(**settings: object):  # type: ignore[no-untyped-def]
        import lightning.pytorch as pl

        return pl.Trainer(
            accelerator="cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=str(tmp_path),
            **settings,  # type: ignore[arg-type]
        )

    return make
