"""The training loader of ``radial-vicreg pretrain``: an epoch's batches depend on the seed and the epoch alone."""

from __future__ import annotations

from typing import Any

import torch
from omegaconf import DictConfig
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from radial_vicreg.data.batches import collate
from radial_vicreg.data.device import DeviceImages
from radial_vicreg.data.folder import check_batch_fits
from radial_vicreg.optim import process_count


class EpochSampler(DistributedSampler[int]):
    """Shuffles by (seed, epoch), so that a resumed run sees the batches of an uninterrupted one.

    Args:
        dataset: what to shuffle.
        seed: of the run.

    Attributes:
        generator: seeded by every :meth:`set_epoch`; the loader draws its workers' seeds from it.
    """

    def __init__(self, dataset: Dataset[Any], seed: int) -> None:
        super().__init__(dataset, num_replicas=1, rank=0, shuffle=True, seed=seed)
        self.generator = torch.Generator()
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before every epoch."""
        super().set_epoch(epoch)
        self.generator.manual_seed(self.seed + epoch)


def build_train_loader(cfg: DictConfig, dataset: Dataset[Any]) -> DataLoader[Any]:
    """Shuffled, whole batches.

    With several processes the sampler is Lightning's distributed one, which shuffles by seed and epoch as well.

    Args:
        cfg: configuration in solo-learn's schema.
        dataset: yields (index, crops, target), or makes batches of them itself (:class:`DeviceImages`).

    Returns:
        Batches of ``[indexes, [view 1, view 2], targets]``.

    Raises:
        UserError: the data set holds less than one batch for every process; the numbers are named.
    """
    processes = process_count(cfg)
    size = len(dataset)  # type: ignore[arg-type]
    check_batch_fits(size, cfg.optimizer.batch_size, processes, where=f"data.train_path={cfg.data.train_path}")
    sampler = EpochSampler(dataset, seed=int(cfg.seed)) if processes == 1 else None
    on_device = isinstance(dataset, DeviceImages)
    return DataLoader(
        dataset,
        batch_size=cfg.optimizer.batch_size,
        sampler=sampler,
        shuffle=sampler is None,
        generator=None if sampler is None else sampler.generator,
        num_workers=0 if on_device else cfg.data.num_workers,  # a process's own GPU is of no use to its workers
        pin_memory=torch.cuda.is_available() and not on_device,
        collate_fn=dataset.collate if on_device else collate,  # type: ignore[attr-defined]
        drop_last=True,
    )
