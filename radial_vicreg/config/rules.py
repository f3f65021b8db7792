"""What several keys must be together, under ``radial-vicreg pretrain``."""

from __future__ import annotations

from radial_vicreg.config.schema import RunConfig
from radial_vicreg.config.sections import AugmentationConfig
from radial_vicreg.errors import UserError

_VIEWS = 2
_STRENGTHS = ("brightness", "contrast", "saturation", "hue")


def check_rules(config: RunConfig) -> None:
    """Refuse keys that are right one by one and wrong together.

    Args:
        config: of ``radial-vicreg pretrain``.

    Raises:
        UserError: an operation without its strengths, other than two crops of one size, attributes of another data set
            than CelebA.
    """
    for index, augmentation in enumerate(config.augmentations):
        _check_complete(augmentation, f"augmentations.{index}.")
    crops = sum(augmentation.num_crops for augmentation in config.augmentations)
    sizes = [str(augmentation.crop_size) for augmentation in config.augmentations]
    if crops != _VIEWS or len(set(sizes)) > 1:
        raise UserError(
            f"augmentations must give {_VIEWS} crops of one size, the two views that are compared; got {crops} of"
            f" {', '.join(sizes)} pixels: correct num_crops and crop_size"
        )
    if config.data.multi_label and config.data.dataset != "celeba":
        raise UserError("data.multi_label=true needs data.dataset=celeba: other data sets have one class an image")


def _check_complete(augmentation: AugmentationConfig, prefix: str) -> None:
    crop, jitter = augmentation.rrc, augmentation.color_jitter
    needed: dict[str, float | None] = {}
    if crop.enabled:
        needed |= {"rrc.crop_min_scale": crop.crop_min_scale, "rrc.crop_max_scale": crop.crop_max_scale}
    if jitter.prob:
        needed |= {f"color_jitter.{name}": getattr(jitter, name) for name in _STRENGTHS}
    for key, value in needed.items():
        if value is None:
            raise UserError(f"{prefix}{key} is not set: add it to the configuration or give {prefix}{key}=VALUE")
    if crop.enabled and crop.scale[0] > crop.scale[1]:
        raise UserError(
            f"{prefix}rrc.crop_min_scale must not be above crop_max_scale, got {crop.scale[0]} and {crop.scale[1]}"
        )
