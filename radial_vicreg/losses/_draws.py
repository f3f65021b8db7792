"""Chi samples that depend on a seed and on a call counter, which the ``state_dict`` holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from radial_vicreg.losses._checks import checked_integer
from radial_vicreg.losses._chi import chi_draws
from radial_vicreg.losses._tracing import outside_graphs

#: Key of the counter in a ``state_dict``: PyTorch's name for extra state, which older checkpoints used as well.
EXTRA_STATE = "_extra_state"


class DrawingModule(nn.Module):
    """Module whose chi samples are the same on every rank and in a resumed run.

    The samples depend on ``seed`` and on the number of training-mode calls that have sampled so far. The number is an
    int, since a buffer on a GPU would stall each step. The ``state_dict`` holds it as a 0-d int64 tensor on the CPU,
    even before the first call, so that loaders which only fill existing entries find it. A module that does not sample
    adds no entry.

    Args:
        seed: seed of the samples.

    Raises:
        ValueError: ``seed`` is negative or not an integer.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = checked_integer("seed", seed, minimum=0)
        self._drawn = 0

    @property
    def draws_samples(self) -> bool:
        """Whether :meth:`forward` samples from the chi distribution."""
        raise NotImplementedError

    @outside_graphs
    def _draws(self, count: int, views: tuple[Tensor, ...]) -> Tensor:
        """Sample ``count`` values per view, one column per view, with the dimension, dtype and device of the views."""
        # A new generator for each call: the samples are then the same on every rank and after a resume.
        entropy = np.random.SeedSequence((self.seed, self._drawn)).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(entropy[0]))
        self._drawn += self.training
        return torch.stack([chi_draws(count, z.shape[1], z, generator) for z in views], dim=1)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.draws_samples:
            destination[prefix + EXTRA_STATE] = torch.tensor(self._drawn, dtype=torch.int64, device="cpu")

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        key = prefix + EXTRA_STATE
        if key in unexpected_keys:  # PyTorch expects the key only from modules that always write it
            unexpected_keys.remove(key)
        if key in state_dict:
            try:
                self._drawn = _count_of(state_dict[key], key)
            except ValueError as error:
                error_msgs.append(str(error))


def _count_of(state: Any, key: str) -> int:
    """Read the number of calls from a ``state_dict``: a 0-d int64 tensor or, in older checkpoints, an int."""
    if isinstance(state, Tensor):
        if state.dim() != 0 or state.dtype != torch.int64 or state.is_meta:
            raise ValueError(
                f"{key}: expected a 0-d int64 tensor, the number of calls that drew, "
                f"got {state.dtype} of shape {tuple(state.shape)} on {state.device}."
            )
        state = state.item()
    return checked_integer(key, state, minimum=0)
