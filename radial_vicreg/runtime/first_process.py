"""Whether this process is the first of its training, as its trainer says. Without PyTorch."""

from __future__ import annotations

_trainer_rank = 0


def set_trainer_rank(rank: int) -> None:
    """Set the rank that the trainer of this process has, which is known before ``torch.distributed`` is initialised.

    Args:
        rank: ``trainer.global_rank``.
    """
    global _trainer_rank
    _trainer_rank = rank


def is_first_process() -> bool:
    """Return whether this process prints messages of its training; a process without a trainer always does."""
    return _trainer_rank == 0
