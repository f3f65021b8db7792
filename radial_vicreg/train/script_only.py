"""What only solo-learn's ``main_pretrain.py`` reads: refused under ``radial-vicreg pretrain``, which would ignore it.

The mirror image is :data:`radial_vicreg.solo.limits.PRETRAIN_ONLY`.
"""

from __future__ import annotations

from operator import attrgetter

from radial_vicreg.config import RunConfig
from radial_vicreg.config.words import field_of
from radial_vicreg.errors import UserError

_CKPT = "here ckpt=auto goes on with the newest run of this configuration, and without ckpt a new run starts"
_KNN = "probes.encoder_knn=true is the kNN after validations here, probes.knn_neighbours its k"
_UMAP = "`radial-vicreg solo main_umap.py` draws a figure of a finished run"
_DALI = "data.format=dali is that script's; here use data.format=image_folder or device"
_CROPS = "the crops are counted from augmentations (num_crops)"

SCRIPT_ONLY = {
    "resume_from_checkpoint": "here, ckpt=PATH goes on from a checkpoint",
    "checkpoint.dir": "here, runs_dir is the folder of all runs",
    "auto_resume.enabled": _CKPT,
    "auto_resume.max_hours": _CKPT,
    "knn_eval.enabled": _KNN,
    "knn_eval.k": _KNN,
    "knn_eval.distance_func": _KNN,
    "auto_umap.enabled": _UMAP,
    "auto_umap.dir": _UMAP,
    "auto_umap.frequency": _UMAP,
    "dali.device": _DALI,
    "dali.encode_indexes_into_labels": _DALI,
    "data.num_large_crops": _CROPS,
    "data.num_small_crops": _CROPS,
    "debug_augmentations": "draw some crops in a notebook instead",
}
"""Keys, and what to do instead. ``data.num_classes`` is compared with the images."""


def refuse_script_only(config: RunConfig) -> None:
    """Refuse what this command would ignore.

    Args:
        config: of ``radial-vicreg pretrain``.

    Raises:
        UserError: a setting that only solo-learn's script reads is not at its default.
    """
    for key, remedy in SCRIPT_ONLY.items():
        value = attrgetter(key)(config)
        if value != (default := field_of(key, RunConfig).default):
            raise UserError(
                f"{key}={_yaml(value)} is read by solo-learn's main_pretrain.py only: {remedy}; leave it out, or at"
                f" {_yaml(default)}"
            )


def check_num_classes(config: RunConfig, found: int) -> None:
    """Refuse a number of classes that is not that of the images.

    Args:
        config: its ``data.num_classes`` is counted by solo-learn's script, and need not be given.
        found: classes of the images.

    Raises:
        UserError: another number is given.
    """
    if config.data.num_classes not in (None, found):
        raise UserError(
            f"data.num_classes={config.data.num_classes}, but the images of data.train_path={config.data.train_path} "
            f"have {found}: leave it out, they are counted"
        )


def _yaml(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
