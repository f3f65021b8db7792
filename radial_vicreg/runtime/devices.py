"""The device and the processor cores of a process."""

from __future__ import annotations

import os

import torch

from radial_vicreg.errors import UserError


def process_device(on_gpu: bool) -> torch.device:
    """Return the process's current GPU with its index, or the CPU.

    The index identifies its generator among those of all GPUs.

    Args:
        on_gpu: whether to return a GPU; one must be available.
    """
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def usable_device(name: str | torch.device, option: str = "device") -> torch.device:
    """Return the torch device with this name, after one number was read back from it.

    Args:
        name: for example ``cpu``, ``cuda``, ``cuda:1``.
        option: the setting that named it, for the message.

    Raises:
        UserError: PyTorch knows no such device, the device is absent, or it holds no values (``meta``).
    """
    try:
        device = torch.device(name)
        float(torch.zeros(1, device=device))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{option} {name} cannot be used ({reason}); use cpu, or omit it") from error
    return device


def usable_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
