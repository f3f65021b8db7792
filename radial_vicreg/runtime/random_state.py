"""Random numbers for one purpose, which leave those of everything else as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from radial_vicreg.runtime.devices import process_device


@contextmanager
def own_random_numbers(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Draw from seeded generators of PyTorch within a block, and restore their states after it.

    The values are those after ``torch.manual_seed(seed)``. That function seeds every device as well, and
    ``torch.random.fork_rng(devices=[])`` does not restore them: what draws on a GPU (augmentations, dropout, losses)
    would then repeat itself on every rank, and differ after a resume.

    Args:
        seed: of the CPU's generator, and of the device's.
        device: where the block draws besides the CPU; None: on the CPU alone. No other device is touched.
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
    """Return a GPU's default generator, from which everything there draws; None for the CPU.

    Args:
        device: with or without an index; without one it is the process's current GPU.
    """
    if device.type != "cuda":
        return None
    torch.cuda.init()  # there are no generators before
    index = process_device(on_gpu=True).index if device.index is None else device.index
    found: torch.Generator = torch.cuda.default_generators[index]
    return found
