"""Micro-batches of a run (``optimizer.micro_batch_size``): checks, the line at its start, and the backbone's part."""

from __future__ import annotations

from torch import nn

from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted
from radial_vicreg.nets.micro_batches import FEWEST_IMAGES, has_batch_norm, use_micro_batches
from radial_vicreg.nets.models import build_backbone, is_embedded
from radial_vicreg.runtime.random_state import own_random_numbers
from radial_vicreg.train.hardware import effective_hardware


def check_micro_batches(config: RunConfig) -> None:
    """Refuse micro-batches that the backbone cannot have, before images are read.

    Args:
        config: prepared configuration. A backbone that only another host has is checked when that host builds it.

    Raises:
        UserError: see :func:`apply_micro_batches`.
    """
    if config.optimizer.micro_batch_size is not None and is_embedded(config.backbone.name):
        with own_random_numbers(config.seed):
            refuse_micro_batches(config, build_backbone(config)[0])


def apply_micro_batches(config: RunConfig, backbone: nn.Module) -> None:
    """Let a backbone see the configured number of images at a time; without one, leave it as it is.

    Args:
        config: configuration of the run.
        backbone: changed in place.

    Raises:
        UserError: BatchNorm with statistics over several processes, or of fewer images than it needs.
    """
    refuse_micro_batches(config, backbone)
    if (size := config.optimizer.micro_batch_size) is not None:
        use_micro_batches(backbone, size)


def refuse_micro_batches(config: RunConfig, backbone: nn.Module) -> None:
    """Refuse micro-batches that a backbone cannot have.

    Args:
        config: configuration of the run.
        backbone: as the host has built it, or as Lightning has converted it.

    Raises:
        UserError: see :func:`apply_micro_batches`.
    """
    size = config.optimizer.micro_batch_size
    if size is None or not has_batch_norm(backbone):
        return
    converted = any(isinstance(module, nn.SyncBatchNorm) for module in backbone.modules())
    if config.processes > 1 and (converted or effective_hardware(config)["sync_batchnorm"]):
        raise UserError(
            f"optimizer.micro_batch_size={size} with sync_batchnorm=true: BatchNorm layers of {config.backbone.name}"
            f" would exchange statistics between {config.processes} processes a second time, within the backward pass;"
            " set sync_batchnorm=false, or omit micro_batch_size"
        )
    if size < FEWEST_IMAGES:
        raise UserError(
            f"optimizer.micro_batch_size={size} is too small for the BatchNorm layers of {config.backbone.name}, which"
            f" need 2 images or more at a time: give {FEWEST_IMAGES} or more"
        )


def accumulation_note(config: RunConfig) -> str | None:
    """Say that accumulated batches are not one large batch, and what is; None without accumulation.

    Args:
        config: configuration of the run.
    """
    if config.accumulation == 1:
        return None
    size = config.optimizer.batch_size
    return (
        f"note: accumulate_grad_batches={config.accumulation}: each batch of {config.global_batch} images has"
        f" statistics of its own; one batch of all is optimizer.batch_size={size * config.accumulation}"
        f" optimizer.micro_batch_size={size} without it"
    )


def micro_batch_note(config: RunConfig, backbone: nn.Module) -> str | None:
    """Describe in one line whose statistics BatchNorm has; None if they are those of the whole batch.

    Args:
        config: configuration of the run.
        backbone: the run's.
    """
    size, batch = config.optimizer.micro_batch_size, config.optimizer.batch_size
    if size is None or size >= batch or not has_batch_norm(backbone):
        return None
    return (
        f"note: optimizer.micro_batch_size={size}: in training, the BatchNorm layers of {config.backbone.name} have the"
        f" statistics of at most {counted(size, 'image')}, not of {batch}"
    )
