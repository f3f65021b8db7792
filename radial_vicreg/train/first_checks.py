"""Check names, keys and paths of a run before PyTorch and Lightning are imported, which takes seconds."""

from __future__ import annotations

import importlib.util
import os
import sys
from operator import attrgetter
from pathlib import Path

from radial_vicreg.config import RunConfig
from radial_vicreg.config.lookups import check_optimizer_names, check_schedule, check_strategy
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.data.formats import memory_option
from radial_vicreg.data.sets import data_set
from radial_vicreg.errors import MissingPackageError, UserError
from radial_vicreg.io.files import check_output
from radial_vicreg.names.networks import SOLO_LARGE_VIEWS
from radial_vicreg.runs.checkpoints import require_checkpoint

_LOGGER_PACKAGES = {"loggers.tensorboard": ("tensorboard", "tensorboardX"), "wandb.enabled": ("wandb",)}
"""The packages that a logger can use; the first is also the name of the extra that installs it."""


def check_first(config: RunConfig) -> None:
    """Refuse what can be refused without PyTorch: misspelt keys and names, and missing folders and files.

    The rest is checked where it is used. Nothing is written.

    Args:
        config: the requested configuration of ``radial-vicreg pretrain``.

    Raises:
        UserError: a key that only solo-learn's script reads, an unknown strategy, optimizer, schedule, data set or
            format, a logger whose package is missing, a spacing that the batch does not allow, a folder or checkpoint
            that does not exist, a loss whose package cannot be found.
    """
    check_names(config)
    if config.ckpt not in (None, "auto", "last"):
        require_checkpoint(Path(config.ckpt))
    check_output(Path(config.runs_dir), "folder", "runs_dir=DIR")
    data_set(config.data.dataset).check_places(config.data)


def check_names(config: RunConfig) -> None:
    """Refuse misspelt keys and names, without looking for folders and files.

    Args:
        config: the requested configuration.

    Raises:
        UserError: see :func:`check_first`.
    """
    refuse_unread(config, "pretrain")
    check_strategy(config)
    check_loggers(config)
    if (options := standalone_options(config)) and config.host == "solo":
        raise UserError(f"{options[0]} needs host=standalone: solo-learn does not support it")
    data_set(config.data.dataset)
    check_optimizer_names(config.optimizer)
    check_schedule(config.scheduler)
    _check_spacing(config)
    _check_target(config)


def standalone_options(config: RunConfig) -> list[str]:
    """List the settings that only the embedded host has."""
    options = [memory_option(config)]
    if config.backbone.name.startswith("timm:"):
        options.append(f"backbone.name={config.backbone.name}")
    if config.loss is not None:
        options.append(f"loss._target_={config.loss.target}")
    if config.large_views != SOLO_LARGE_VIEWS:
        options.append(f"{config.large_views} crops of {config.crop_size} pixels")
    return [option for option in options if option is not None]


def check_loggers(config: RunConfig) -> None:
    """Refuse a logger whose package is not installed.

    Raises:
        MissingPackageError: a package is missing; the message names the extra that installs it.
    """
    for key, names in _LOGGER_PACKAGES.items():
        specs = [importlib.util.find_spec(name) for name in names]
        # A spec without an origin is a folder of that name, such as W&B's in the working directory.
        if attrgetter(key)(config) and not any(spec is not None and spec.origin for spec in specs):
            raise MissingPackageError(f"{key}=true needs {names[0]}: pip install 'radial-vicreg[{names[0]}]'")


def cannot_build(target: str, reason: str) -> UserError:
    """Make the error for a custom loss that cannot be built.

    Args:
        target: its dotted name.
        reason: why, without a full stop.
    """
    return UserError(
        f"loss._target_={target} cannot be built: {reason}. It must be a class's dotted name, importable"
        " here (from the working directory, PYTHONPATH or an installed package), and take the other keys of loss as"
        " arguments"
    )


def _check_spacing(config: RunConfig) -> None:
    spacing = config.method_kwargs.radial_spacing
    if spacing is not None and spacing >= config.global_batch:
        raise UserError(
            f"method_kwargs.radial_spacing must be below the global batch of {config.global_batch}, got {spacing}; "
            "null chooses round(sqrt(N))"
        )


def _check_target(config: RunConfig) -> None:
    """Look for the package of a custom loss; importing it would import PyTorch."""
    if config.loss is None:
        return
    if os.getcwd() not in sys.path:  # as with `python -m`; the folder of a script comes first
        sys.path.append(os.getcwd())
    package, _, rest = str(config.loss.target).partition(".")
    if rest and package.isidentifier() and package not in sys.modules and importlib.util.find_spec(package) is None:
        raise cannot_build(str(config.loss.target), f"No module named {package!r}")
