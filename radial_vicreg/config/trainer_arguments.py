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


class TrainerArgument(NamedTuple):
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


TRAINER_ARGUMENTS: dict[str, TrainerArgument] = {
    "max_steps": TrainerArgument(-1),
    "min_epochs": TrainerArgument(),
    "min_steps": TrainerArgument(),
    "max_time": TrainerArgument(),
    "limit_train_batches": TrainerArgument(1.0, counts_batches=True),
    "overfit_batches": TrainerArgument(0.0, counts_batches=True),
    "fast_dev_run": TrainerArgument(False, counts_batches=True),
    "gradient_clip_val": TrainerArgument(0.0),
    "gradient_clip_algorithm": TrainerArgument("norm", read_with="gradient_clip_val"),
    "deterministic": TrainerArgument(False),
    "benchmark": TrainerArgument(False),
    # A validation within an epoch changes the random numbers of later steps.
    "val_check_interval": TrainerArgument(1.0, counts_batches=True),
    "use_distributed_sampler": TrainerArgument(True),
    "reload_dataloaders_every_n_epochs": TrainerArgument(0),
    "barebones": TrainerArgument(False),
    "check_val_every_n_epoch": TrainerArgument(outside=_VALIDATION),
    "num_sanity_val_steps": TrainerArgument(outside=_VALIDATION, read_by=_SCRIPT),
    "inference_mode": TrainerArgument(outside=_VALIDATION),
    "limit_test_batches": TrainerArgument(outside=_UNUSED),
    "limit_predict_batches": TrainerArgument(outside=_UNUSED),
    "enable_progress_bar": TrainerArgument(outside=_DISPLAY, read_by=_SCRIPT),
    "enable_model_summary": TrainerArgument(outside=_DISPLAY, read_by=_SCRIPT),
    "enable_autolog_hparams": TrainerArgument(outside=_DISPLAY),
    "logger": TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "callbacks": TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "plugins": TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "enable_checkpointing": TrainerArgument(outside=_DECIDED, read_by=_SCRIPT),
    "profiler": TrainerArgument(outside="measures time"),
    "detect_anomaly": TrainerArgument(outside="only checks for NaN"),
    "default_root_dir": TrainerArgument(outside="a path"),
    "model_registry": TrainerArgument(outside="location of finished checkpoints"),
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


def _canonical(argument: TrainerArgument, value: Any) -> Any:
    if value is None:
        return argument.default
    if argument.counts_batches and isinstance(value, int):  # fast_dev_run=true is one batch
        return argument.default if value == 0 == argument.default else f"{int(value)} batches"
    return value.lower() if isinstance(value, str) else value
