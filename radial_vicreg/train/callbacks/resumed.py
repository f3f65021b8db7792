"""Restore batches and random numbers of a resumed run's first epoch to those of a run that was never stopped."""

from __future__ import annotations

import random
from typing import Any, TypedDict

import lightning.pytorch as pl
import numpy as np
import torch
import torch.distributed as dist

from radial_vicreg.runtime.distributed import is_distributed, rank, world_size


class States(TypedDict, total=False):
    """States of a process's generators, in types that ``weights_only=True`` can load; ``cuda`` only if it is used."""

    python: list[Any]
    numpy: list[Any]
    torch: torch.Tensor
    cuda: torch.Tensor


class FreshBatches(pl.Callback):
    """Let a resumed run sample the batches of its first epoch after that epoch is known.

    Lightning makes the iterator of the training batches before it sets the sampler's epoch, and a resumed run keeps
    this iterator: workers, which fetch at once, would repeat the first epoch's order and random crops. This callback
    must come after the one that seeds the epoch. It works with any loader, including solo-learn's.
    """

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Make the iterator again if Lightning would keep the one that it made too early."""
        loop = trainer.fit_loop
        # True until the first epoch is over. Older versions lack it, and make the iterator again themselves.
        if getattr(loop, "is_resuming", False) and loop._data_fetcher is not None:
            iter(loop._data_fetcher)


class GeneratorStates(pl.Callback):
    """Keep the states of Python's, numpy's and torch's generators in the checkpoints of solo-learn's script.

    The script seeds them once, so the random numbers of an epoch depend on everything before it. Seeding each epoch, as
    ``radial-vicreg pretrain`` does, would change uninterrupted runs. Checkpoints are written after every other callback
    has finished the epoch (:func:`radial_vicreg.train.callbacks.solo_checkpoints.write_checkpoints_last`).
    """

    def __init__(self) -> None:
        self._restored: list[States] | None = None

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Set the generators of a resumed run's first epoch, unless the number of processes has changed."""
        states, self._restored = self._restored, None
        if states is not None and len(states) == world_size():
            _set_states(states[rank()])

    def state_dict(self) -> dict[str, Any]:
        """Collect the states of every process, in tensors and plain containers; every process must call it."""
        states: list[Any] = [_states()]
        if is_distributed():
            states = [None] * world_size()
            dist.all_gather_object(states, _states())
        return {"processes": states}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep :meth:`state_dict` until the epoch starts: other code uses random numbers before."""
        self._restored = state_dict["processes"]


def _states() -> States:
    version, words, gauss = random.getstate()
    name, keys, *position = np.random.get_state(legacy=True)
    states: States = {
        "python": [version, list(words), gauss],
        "numpy": [name, np.asarray(keys).tolist(), *position],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_states(states: States) -> None:
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, *position = states["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *position))
    torch.set_rng_state(states["torch"].cpu())
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"].cpu())
