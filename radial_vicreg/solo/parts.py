"""Check the parts that solo-learn builds from a configuration: its own assertions come later and have no message."""

from __future__ import annotations

from collections.abc import Collection

import torch
from solo.args import pretrain as solo_args
from solo.data import pretrain_dataloader
from solo.methods.base import BaseMethod

from radial_vicreg.config import RunConfig
from radial_vicreg.config.fields import choices
from radial_vicreg.errors import MissingPackageError, UserError, did_you_mean, reason_of
from radial_vicreg.nets.models import FIXED_SIZE, check_crops
from radial_vicreg.runtime.random_state import own_random_numbers
from radial_vicreg.solo.limits import VALIDATION_PIXELS, validates_folders


def check_backbone_name(name: str) -> None:
    """Refuse a backbone that solo-learn does not have.

    Raises:
        UserError: solo-learn does not have it; the message gives the nearest name, or all names.
    """
    if name not in BaseMethod._BACKBONES:
        hint = did_you_mean(name, BaseMethod._BACKBONES, what="solo-learn has")
        if name.startswith("timm:"):
            hint = "use `radial-vicreg pretrain host=standalone` for timm's networks"
        raise UserError(f"unknown backbone.name {name!r}: {hint}")


def check_parts(config: RunConfig) -> None:
    """Check names, the arguments of the backbone, and whether the backbone takes images of the configured sizes.

    Args:
        config: configuration of solo-learn's script.

    Raises:
        UserError: an unknown backbone, optimizer or schedule, or a backbone that does not take the crops or the
            validation images.
    """
    check_backbone_name(config.backbone.name)
    _check_choice("optimizer.name", config.optimizer.name, BaseMethod._OPTIMIZERS)
    scheduler = config.scheduler
    if scheduler.name != "None":  # solo-learn takes this spelling as well
        # solo-learn's own list has two more names, which its configure_optimizers refuses.
        _check_choice("scheduler.name", scheduler.name, choices("scheduler.name"))
    _check_choice("scheduler.interval", scheduler.interval, choices("scheduler.interval"))
    if scheduler.name == "step" and scheduler.lr_decay_steps is None:
        raise UserError("scheduler.lr_decay_steps is not set: give scheduler.lr_decay_steps=[EPOCH,...]")
    _check_sizes(config)


def check_packages(config: RunConfig) -> None:
    """Refuse settings that need a missing optional package, which solo-learn would report late.

    Args:
        config: configuration of solo-learn's script.

    Raises:
        MissingPackageError: a package is missing; the message says how to install it.
    """
    if config.auto_umap.enabled and not solo_args._umap_available:
        raise MissingPackageError("auto_umap.enabled=true needs umap-learn: pip install 'radial-vicreg[umap]'")
    if config.data.format == "dali" and not solo_args._dali_available:
        raise MissingPackageError("data.format=dali needs DALI: pip install 'radial-vicreg[dali]'")
    if config.data.format == "h5" and not pretrain_dataloader._h5_available:
        raise MissingPackageError("data.format=h5 needs h5py: pip install h5py")


def _check_choice(key: str, given: str | None, known: Collection[str]) -> None:
    if given not in known:
        raise UserError(f"unknown {key} {given!r}: {did_you_mean(given, known, what='solo-learn has')}")


def _check_sizes(config: RunConfig) -> None:
    name, arguments = config.backbone.name, config.backbone.arguments()
    if not arguments and not name.startswith(FIXED_SIZE):
        return  # such a backbone takes images of any size, and a large one takes seconds to build
    with own_random_numbers(config.seed):
        try:
            backbone = BaseMethod._BACKBONES[name](config.method, **arguments).to("meta")
        except Exception as error:  # TypeError for an unknown argument; for a bad value, anything
            raise UserError(f"backbone.kwargs={arguments} do not fit {name}: {reason_of(error)}") from error
        check_crops(backbone, config)
        if not validates_folders(config):
            return
        try:
            backbone(torch.zeros(2, 3, VALIDATION_PIXELS, VALIDATION_PIXELS, device="meta"))
        except Exception as error:
            raise UserError(
                f"backbone.name={name} with backbone.kwargs={arguments} does not accept images of "
                f"{VALIDATION_PIXELS} pixels, at which solo-learn validates image folders ({reason_of(error)}): "
                "set data.val_path=null or limit_val_batches=0, or use `radial-vicreg pretrain`, which validates "
                "at the training resolution"
            ) from error
