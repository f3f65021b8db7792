"""The device of a process."""

from __future__ import annotations

import torch


def process_device(on_gpu: bool) -> torch.device:
    """Return the process's current GPU with its index, or the CPU.

    The index finds its generator among those of all GPUs.

    Args:
        on_gpu: whether it is a GPU; PyTorch must see one.
    """
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
