"""Random numbers for one purpose that do not affect any others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from radial_vicreg.runtime.devices import process_device


@contextmanager
def own_random_numbers(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw from seeded generators of PyTorch within a block, and restore their states after it.

    The values are those after ``torch.manual_seed(seed)``. That function seeds every device as well, and
    ``torch.random.fork_rng(devices=[])`` does not restore them: random numbers on a GPU (of augmentations, dropout,
    losses) would then be equal on every rank and differ after a resume.

    Args:
        seed: of the CPU's generator, and of the device's.
        device: a device to seed and restore besides the CPU; None: the CPU alone. Other devices are not affected.
    """
    generators = [torch.default_generator]
    if device is not None and (on_device := device_generator(device)) is not None:
        generators.append(on_device)
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


def device_generator(device: torch.device) -> torch.Generator | None:
    """Return the default generator of a GPU, which all operations there use; None for the CPU.

    Args:
        device: with or without an index; without one it is the process's current GPU.
    """
    if device.type != "cuda":
        return None
    torch.cuda.init()  # creates the generators
    index = process_device(on_gpu=True).index if device.index is None else device.index
    found: torch.Generator = torch.cuda.default_generators[index]
    return found
