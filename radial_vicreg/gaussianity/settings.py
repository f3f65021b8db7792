"""Options of ``radial-vicreg diagnose`` besides its sources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from radial_vicreg.errors import UserError
from radial_vicreg.runtime.devices import usable_device

_LARGEST_SEED = 2**63 - 1  # PyTorch's


@dataclass(frozen=True)
class Settings:
    """Validated options.

    Args:
        images: folder of images for all networks; None: a run's own images.
        max_images: maximum number of images, or rows of a matrix; evenly spaced ones are used.
        batch_size: number of images that are embedded at once.
        workers: number of data-loading processes; None: a run's setting, or 0 for other networks.
        device: torch device; None: a GPU if available.
        seed: seed of slices, normal samples, and the weights of backbones that are not pretrained.
        pretrained: load pretrained weights for timm's and torchvision's backbones.
        on_bad_image: ``"error"`` or ``"skip"``; None: a run's setting, or ``"error"`` for other networks.

    Raises:
        UserError: a number is too small, or the device is not available.
    """

    images: Path | None = None
    max_images: int = 10_000
    batch_size: int = 256
    workers: int | None = None
    device: str | None = None
    seed: int = 0
    pretrained: bool = True
    on_bad_image: str | None = None

    def __post_init__(self) -> None:
        """Check the numbers and the device."""
        for option, value, least in (
            ("max-images", self.max_images, 2),
            ("batch-size", self.batch_size, 1),
            ("workers", self.workers or 0, 0),
            ("seed", self.seed, 0),
        ):
            if value < least:
                raise UserError(f"--{option} {value}: expected {least} or more")
        if self.seed > _LARGEST_SEED:
            raise UserError(f"--seed {self.seed}: expected at most {_LARGEST_SEED}")
        usable_device(self.place, "--device")

    @property
    def place(self) -> str:
        """Name of the device."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")
