"""The online probe of multi-label data: attributes that are each there or not."""

from __future__ import annotations

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from radial_vicreg.data.celeba import load_attributes
from radial_vicreg.errors import UserError
from radial_vicreg.probes.metrics import BALANCED_ACCURACY, BalancedAccuracy


def is_multi_label(cfg: DictConfig) -> bool:
    """Whether ``data.multi_label`` is set: targets are ``(N, attributes)`` zeros and ones."""
    return bool(OmegaConf.select(cfg, "data.multi_label", default=False))


def attribute_scores(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and accuracy of the probe.

    Args:
        logits: shape ``(N, attributes)``.
        targets: zeros and ones, float, same shape.

    Returns:
        Binary cross-entropy and the share of right answers over images and attributes in percent, both 0-d.
    """
    loss = F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))
    return loss, 100.0 * ((logits.detach() > 0) == (targets > 0.5)).float().mean()


def log_balanced_accuracy(
    module: pl.LightningModule, metric: BalancedAccuracy, logits: Tensor, targets: Tensor
) -> None:
    """Adds a validation batch and logs the epoch's :data:`BALANCED_ACCURACY`; Lightning computes it once an epoch.

    Args:
        module: whose validation step this is; ``metric`` is an attribute of it.
        metric: counts of the epoch. They are no part of a checkpoint.
        logits: shape ``(N, attributes)``.
        targets: zeros and ones, same shape.
    """
    metric.update(logits.detach(), targets)
    module.log(BALANCED_ACCURACY, metric, on_step=False, on_epoch=True)


def attributes_by_index(cfg: DictConfig) -> Tensor:
    """Attributes of the training images, for solo-learn's own readers, which know a number for each image and no more.

    Its image folders and, with ``dali.encode_indexes_into_labels``, DALI number the files of the one class folder in
    sorted order, which is the table's.

    Args:
        cfg: solo-learn's configuration with ``data.dataset: custom``.

    Returns:
        Zeros and ones, uint8, shape ``(N, attributes)``.

    Raises:
        UserError: a setting under which the numbers or the labels would be others, or no table beside the images.
    """
    select = OmegaConf.select
    if select(cfg, "data.format") == "dali" and not select(cfg, "dali.encode_indexes_into_labels", default=False):
        raise UserError(
            "attributes are found by file index, which DALI gives with dali.encode_indexes_into_labels=true only"
        )
    if (select(cfg, "data.fraction", default=-1) or -1) > 0:
        raise UserError("data.fraction renumbers the images, so their attributes would be mixed up: leave it out")
    if select(cfg, "data.val_path") is not None:
        raise UserError(
            "solo-learn's validation does not say which image is which: data.val_path=null, or radial-vicreg pretrain"
        )
    return load_attributes(str(cfg.data.train_path)).values


def replace_targets(batch: list[Tensor], table: Tensor) -> list[Tensor]:
    """Puts the attributes of a training batch ``[indexes, views, targets]`` in the place of its targets."""
    indexes, views, _ = batch
    return [indexes, views, table[indexes.to(table.device)].to(indexes.device, torch.float32)]
