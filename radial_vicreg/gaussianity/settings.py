"""What ``radial-vicreg diagnose`` is told beside its sources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from radial_vicreg.errors import UserError

_LARGEST_SEED = 2**63 - 1  # PyTorch's


@dataclass(frozen=True)
class Settings:
    """Options, checked.

    Args:
        images: folder of images for all networks; None: a run's own.
        max_images: at most so many evenly spaced images, or rows of a matrix.
        batch_size: images that are embedded at once.
        workers: processes that load images; None: a run's own, otherwise none.
        device: None: a GPU where there is one.
        seed: of slices, normal samples, and the weights of backbones that are not pretrained.
        pretrained: load the weights of timm's and torchvision's backbones.
        on_bad_image: ``"error"`` or ``"skip"``; None: a run's own, otherwise ``"error"``.

    Raises:
        UserError: a number that is too small, or a device that is not there.
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
        try:
            float(torch.zeros(1, device=self.place))
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UserError(f"--device {self.device} cannot be used ({reason}); give cpu, or leave it out") from error

    @property
    def place(self) -> str:
        """The device's name."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")
