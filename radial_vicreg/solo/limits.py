"""What solo-learn's own scripts cannot do, said before they start instead of by an assertion or a traceback."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from omegaconf import DictConfig, OmegaConf

from radial_vicreg.errors import UserError

_VALIDATED_AT_224 = ("custom", "imagenet", "imagenet100")
_FIXED_SIZE = ("vit", "swin")  # backbones that take images of one size alone
_VALIDATION_PIXELS = 224
_VIEWS = 2


def refuse_impossible(cfg: DictConfig) -> None:
    """Refuse, in one line each, settings with which solo-learn's ``main_pretrain.py`` fails later.

    Args:
        cfg: its configuration, after its ``parse_cfg``.

    Raises:
        UserError: other than two crops of one size; its kNN on a torchmetrics that has dropped what it needs; DALI
            without a validation set; validation at 224 pixels of a transformer of another size.
    """
    large = OmegaConf.select(cfg, "data.num_large_crops", default=_VIEWS)
    small = OmegaConf.select(cfg, "data.num_small_crops", default=0)
    if large != _VIEWS or small:
        raise UserError(
            f"the objective compares {_VIEWS} views of one size, got {large} large and {small} small crops: correct"
            " num_crops and crop_size of augmentations"
        )
    if OmegaConf.select(cfg, "knn_eval.enabled", default=False) and (reason := knn_fails()):
        raise UserError(f"knn_eval cannot work: {reason}; probes.encoder_knn=true is a kNN that does")
    if OmegaConf.select(cfg, "limit_val_batches") == 0:
        return
    labelled = not OmegaConf.select(cfg, "data.no_labels", default=False)
    validates = OmegaConf.select(cfg, "data.val_path") is not None and labelled
    if OmegaConf.select(cfg, "data.format") == "dali" and not validates:
        raise UserError(
            "data.format=dali without a validation set stops at once, since solo-learn gives Lightning no validation"
            " loader there: add limit_val_batches=0, or take data.format=image_folder"
        )
    if validates and cfg.data.dataset in _VALIDATED_AT_224:
        _refuse_fixed_size(cfg)


def knn_fails() -> str:
    """Why solo-learn's kNN cannot be built here; empty when it can."""
    try:
        found = version("torchmetrics")
    except PackageNotFoundError:
        return ""
    return "" if found.startswith("0.") else f"solo-learn's kNN needs torchmetrics below 1.0, and {found} is installed"


def _refuse_fixed_size(cfg: DictConfig) -> None:
    size = OmegaConf.select(cfg, "backbone.kwargs.img_size", default=_VALIDATION_PIXELS)
    flexible = OmegaConf.select(cfg, "backbone.kwargs.dynamic_img_size", default=False)
    if str(cfg.backbone.name).startswith(_FIXED_SIZE) and size != _VALIDATION_PIXELS and not flexible:
        raise UserError(
            f"{cfg.backbone.name} takes images of {size} pixels (backbone.kwargs.img_size), but solo-learn validates"
            f" image folders at {_VALIDATION_PIXELS}: data.val_path=null, limit_val_batches=0, or `radial-vicreg"
            " pretrain`, which validates at the training resolution"
        )
