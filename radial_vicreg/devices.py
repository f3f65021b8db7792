"""The device of a process."""

from __future__ import annotations

import torch


def process_device(on_gpu: bool) -> torch.device:
    """Return the process's current GPU with its index, or the CPU.

    Several functions of ``torch.cuda`` take no device without an index before PyTorch 2.5.

    Args:
        on_gpu: whether it is a GPU; PyTorch must see one.
    """
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
