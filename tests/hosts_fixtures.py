"""Fixtures of tests that train either host on batches of their own; a conftest imports what its tests use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lightning.pytorch as pl
import pytest
import torch
from helpers import composed
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader, Dataset

from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig

MakeCfg = Callable[..., DictConfig]
MakeConfig = Callable[..., RunConfig]


class FixedBatches(Dataset):
    """Samples that do not change, of two views and some of half the size: what both hosts get, bit for bit."""

    def __init__(self, count: int, size: int, classes: int, dtype: torch.dtype, small: int) -> None:
        generator = torch.Generator().manual_seed(11)
        self.views = torch.randn(2, count, 3, size, size, generator=generator).to(dtype)
        self.small = torch.randn(small, count, 3, size // 2, size // 2, generator=generator).to(dtype)
        self.labels = torch.arange(count) % classes

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[int, list[torch.Tensor], int]:
        return index, [*self.views[:, index], *self.small[:, index]], int(self.labels[index])


@pytest.fixture
def fixed_loader() -> Callable[..., DataLoader]:
    def make(
        batches: int = 10,
        batch_size: int = 8,
        size: int = 32,
        classes: int = 3,
        dtype: torch.dtype = torch.float32,
        small: int = 0,
    ) -> DataLoader:
        return DataLoader(FixedBatches(batches * batch_size, size, classes, dtype, small), batch_size=batch_size)

    return make


@pytest.fixture
def tiny_config(tiny_overrides: list[str]) -> MakeConfig:
    """A configuration of ``radial-vicreg pretrain`` cut down to 16 dimensions and small images."""

    def make(*overrides: str, name: str = "radialvicreg") -> RunConfig:
        quick = ["diagnostics.enabled=false", "performance.disable_channel_last=true"]
        return run_config(composed(name, *tiny_overrides, *quick, *overrides))

    return make


@pytest.fixture
def script_cfg(tiny_overrides: list[str]) -> MakeCfg:
    """The same size for solo-learn's script, which knows no ``runs_dir``: open for new keys, as the script opens it."""

    def make(*overrides: str, name: str = "radialvicreg") -> DictConfig:
        given = [item for item in tiny_overrides if not item.startswith("runs_dir=")]
        cfg = composed(name, *given, *overrides)
        OmegaConf.set_struct(cfg, False)
        return cfg

    return make


@pytest.fixture
def quiet_trainer(tmp_path: Path) -> Callable[..., pl.Trainer]:
    def make(**settings: object) -> pl.Trainer:
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
