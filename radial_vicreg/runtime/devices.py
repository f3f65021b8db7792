"""The device of a process."""

from __future__ import annotations

import torch


def process_device(on_gpu: bool) -> torch.device:
    """Return the process's current GPU with its index, or the CPU.

    The index identifies its generator among those of all GPUs.

    Args:
        on_gpu: whether to return a GPU; one must be available.
    """
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
