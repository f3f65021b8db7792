"""Look up the names in a configuration that another host or release may have more of. Without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

from radial_vicreg.config.fields import choices
from radial_vicreg.config.rules import is_unsupported
from radial_vicreg.config.schema import RunConfig
from radial_vicreg.config.sections import OptimizerArguments, OptimizerConfig, SchedulerConfig
from radial_vicreg.errors import UserError, did_you_mean
from radial_vicreg.names.hints import nearest
from radial_vicreg.names.networks import BACKBONES

_TYPO = 0.8  # similarity above which an argument that is not declared is a misspelt one


def check_choice(key: str, given: str) -> None:
    """Refuse a name that is not among the choices of its key.

    Args:
        key: such as ``optimizer.name``.
        given: its value.

    Raises:
        UserError: it is not; the message lists the choices.
    """
    if given not in (known := choices(key)):
        raise UserError(f"{key}={given!r}: expected one of {', '.join(known)}")


def check_schedule(settings: SchedulerConfig) -> str:
    """Look up a learning-rate schedule.

    Args:
        settings: the section ``scheduler``.

    Returns:
        Its name in lower case; ``none`` for null.

    Raises:
        UserError: unknown name or interval, or settings that are missing.
    """
    name = (settings.name or "none").lower()
    check_choice("scheduler.name", name)
    if name == "step" and settings.lr_decay_steps is None:
        raise UserError("scheduler.lr_decay_steps is not set: give scheduler.lr_decay_steps=[EPOCH,...]")
    if name == "warmup_cosine" and settings.interval not in (known := choices("scheduler.interval")):
        raise UserError(f"scheduler.interval={settings.interval!r}: expected {' or '.join(known)}")
    return name


def check_optimizer_names(settings: OptimizerConfig) -> None:
    """Check the name of an optimizer, and its arguments as far as fields declare them.

    The constructors have more arguments than fields declare; :func:`radial_vicreg.nets.optimizers.build_optimizer`
    asks them.

    Args:
        settings: the section ``optimizer``.

    Raises:
        UserError: unknown name, an argument of another optimizer, or an argument that resembles a declared one.
    """
    name = settings.name
    check_choice("optimizer.name", name)
    declared = OptimizerArguments.model_fields
    refused = []
    for key in settings.arguments():
        if key in declared:
            # The description begins with the names of the optimizers; tests/config/test_fields.py holds it.
            is_taken = name in str(declared[key].description).partition(":")[0].split(", ")
        else:
            is_taken = nearest(key, declared, _TYPO) is None
        refused += [] if is_taken else [key]
    refuse_arguments(name, refused)


def refuse_arguments(optimizer: str, refused: Sequence[str]) -> None:
    """Refuse arguments that an optimizer does not take, as after ``optimizer.name=...`` alone.

    Args:
        optimizer: value of ``optimizer.name``.
        refused: keys of ``optimizer.kwargs``.

    Raises:
        UserError: there are any.
    """
    if refused:
        raise UserError(
            f"optimizer.kwargs {', '.join(refused)} do not fit optimizer.name={optimizer}: exchange the whole group"
            f" with radialvicreg/optimizer={optimizer}, or remove them:"
            f" {' '.join(f'~optimizer.kwargs.{key}' for key in refused)}"
        )


def unknown_backbone(name: str) -> UserError:
    """Make the error for a backbone that the embedded host does not have; it names the nearest.

    Args:
        name: value of ``backbone.name``.
    """
    hint = did_you_mean(name, BACKBONES, what="expected one of")
    return UserError(f"unknown backbone.name {name!r}: {hint}, or timm:NAME")


def check_strategy(config: RunConfig) -> None:
    """Refuse a strategy that Lightning does not have; unsupported ones are refused with the configuration.

    Raises:
        UserError: there is no such strategy.
    """
    known = choices("strategy")
    if config.strategy not in known and not is_unsupported("strategy", config.strategy):
        raise UserError(f"strategy must be one of {', '.join(known)}, got {config.strategy!r}")
