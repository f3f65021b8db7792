"""Arguments of Lightning's Trainer that may stand at the top of a configuration and have no field there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from radial_vicreg.config.types import ALL, WhoReads

_VALIDATION = "validation only; it does not change the network"
_DISPLAY = "what is displayed or logged"
_DECIDED = "decided by the host"
_SCRIPT = WhoReads(
    "script",
    instead="set by `radial-vicreg pretrain` itself: omit it (checkpoint.enabled and loggers.* are its"
    " settings of checkpoints and logs)",
)
_UNUSED = "the training does not use it"


class _TrainerArgument(NamedTuple):
    """An argument, and its role in a run's identity.

    Attributes:
        default: Lightning's default, at which the argument is omitted from the identity.
        outside: reason why it is not part of the identity; None if it is.
        counts_batches: an int is a number of batches, and a float a share of them, so 1 differs from 1.0.
        read_with: another argument; this one is read only where that one is not at its default.
        read_by: its readers.
    """

    default: Any = None
    outside: str | None = None
    counts_batches: bool = False
    read_with: str | None = None
    read_by: WhoReads = ALL


TRAINER_ARGUMENTS: dict[str, _TrainerArgument] = {
    "max_steps": _TrainerArgument(-1),
    "min_epochs": _TrainerArgument(),
    "min_steps": _TrainerArgument(),
    "max_time": _TrainerArgument(),
    "limit_train_batches": _TrainerArgument(1.0, counts_batches=True),
    "overfit_batches": _TrainerArgument(0.0, counts_batches=True),
    "fast_dev_run": _TrainerArgument(False, counts_batches=True),
    "gradient_clip_val": _TrainerArgument(0.0),
    "gradient_clip_algorithm": _TrainerArgument("norm", read_with="gradient_clip_val"),
    "deterministic": _TrainerArgument(False),
    "benchmark": _TrainerArgument(False),
    # A validation within an epoch changes the random numbers of later steps.
    "val_check_interval": _TrainerArgument(1.0, counts_batches=True),
    "use_distributed_sampler": _TrainerArgument(True),
    "reload_dataloaders_every_n_epochs": _TrainerArgument(0),
    "barebones": _TrainerArgument(False),
    "check_val_every_n_epoch": _TrainerArgument(outside=_VALIDATION),
    "num_sanity_val_steps": _TrainerArgument(outside=_VALIDATION, read_by=_SCRIPT),
    "inference_mode": _TrainerArgument(outside=_VALIDATION),
    "limit_test_batches": _TrainerArgument(outside=_UNUSED),
    "limit_predict_batches": _TrainerArgument(outside=_UNUSED),
    "enable_progress_bar": _TrainerArgument(outside=_DISPLAY, read_by=_SCRIPT),
    "enable_model_summary": _TrainerArgument(outside=_DISPLAY, read_by=_SCRIPT),
    "enable_autolog_hparams": _TrainerArgument(outside=_DISPLAY),
    "logger": _TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "callbacks": _TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "plugins": _TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "enable_checkpointing": _TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "profiler": _TrainerArgument(outside="measures time"),
    "detect_anomaly": _TrainerArgument(outside="only checks for NaN"),
    "default_root_dir": _TrainerArgument(outside="a path"),
    "model_registry": _TrainerArgument(outside="location of finished checkpoints"),
}
"""Arguments without a field of :class:`radial_vicreg.config.RunConfig`, by name."""


def canonical_arguments(config: Mapping[str, Any]) -> dict[str, object]:
    """List the arguments that are part of the identity and not at their defaults, in canonical form.

    Args:
        config: resolved, plain containers.

    Returns:
        Names and values; a whole number of batches is a text, ``"1 batches"``.
    """
    found: dict[str, object] = {}
    for name, argument in TRAINER_ARGUMENTS.items():
        if argument.outside is None and (value := _canonical(argument, config.get(name))) != argument.default:
            found[name] = value
    return {name: value for name, value in found.items() if TRAINER_ARGUMENTS[name].read_with in (None, *found)}


def _canonical(argument: _TrainerArgument, value: Any) -> Any:
    if value is None:
        return argument.default
    if argument.counts_batches and isinstance(value, int):  # fast_dev_run=true is one batch
        return argument.default if value == 0 == argument.default else f"{int(value)} batches"
    return value.lower() if isinstance(value, str) else value
