"""Check that a checkpoint from which a run resumes has the same identity and the same training images.

Lightning restores the optimizer and the schedule of a checkpoint and ignores those of the configuration. With another
rate, the run would be recorded with a rate that was not used. With more epochs, a restored cosine schedule stays at
rate 0 (solo-learn's schedule rises again).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radial_vicreg.config import RunConfig
from radial_vicreg.config.stored import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import first_of
from radial_vicreg.runs.checkpoints import CHECKPOINTS, folder_of_run, read_checkpoint
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.origin import Images, compare_fingerprints, images_of, other_images
from radial_vicreg.runs.results import RESULTS
from radial_vicreg.runs.stored import StoredRun, read_stored_run

WRITER = "ResultsWriter"
"""The callback whose state in a checkpoint holds the configuration of its run."""


def check_same_run(checkpoint: Path, config: RunConfig, option: str) -> None:
    """Check that a training of this configuration may resume from a checkpoint.

    Other validation images are allowed while there are epochs left to train: the weights are the same, and all later
    figures are of the new images (:func:`resumes_other_figures`).

    Args:
        checkpoint: the checkpoint file.
        config: the requested configuration, with the fingerprints of its images.
        option: option that named the checkpoint, for messages.

    Raises:
        UserError: the checkpoint has another identity (the message names the keys that differ), other training images,
            or no record of its run, or it is of a finished run with other validation images.
    """
    content = read_checkpoint(checkpoint)
    run = run_around(checkpoint)
    named = f"{option}={checkpoint}"
    identity, images = _recorded(content, run, named)
    if found := identity.differences(Identity.of(config)):
        raise UserError(f"{named} is of another run: {_in_words(found)}; {_remedy(option)}")
    own = images_of(config)
    if (reason := other_images(Images(train=images.train), Images(train=own.train))) is not None:
        raise UserError(f"{named} was {reason}: set its data.train_path to resume it, or {_leave_out(option)}")
    epoch = content.get("epoch")
    is_finished = isinstance(epoch, int) and epoch + 1 >= config.max_epochs
    if is_finished and (reason := other_images(images, own)) is not None:
        raise UserError(f"{named} is finished and was {reason}: {how_to_measure(checkpoint, config)}")


def check_auto_resumed(checkpoint: Path, config: RunConfig) -> None:
    """Refuse a checkpoint that solo-learn's auto-resume has found by its name if its images differ.

    The name holds the identity, but only version 0.2's fingerprint of the training images.

    Args:
        checkpoint: the checkpoint file.
        config: the requested configuration, with the fingerprints of its images.

    Raises:
        UserError: the checkpoint is of other training or validation images, as far as is known.
    """
    try:
        _, images = _recorded(read_checkpoint(checkpoint), run_around(checkpoint), str(checkpoint))
    except UserError:  # only its name is known
        return
    if (reason := other_images(images, images_of(config))) is not None:
        measure = f", and {how_to_measure(checkpoint, config)}" if reason.startswith("validated") else ""
        raise UserError(
            f"auto-resume has found {checkpoint}, which was {reason}: auto_resume.enabled=False starts a new run,"
            f" resume_from_checkpoint=PATH resumes a training with other validation images{measure}"
        )


def resumes_other_figures(state: Mapping[str, Any], config: RunConfig) -> bool:
    """Return whether the figures in a checkpoint are of other validation images than this run's.

    Args:
        state: state of the callback :data:`WRITER` in the checkpoint.
        config: configuration of the run that resumes from the checkpoint.
    """
    recorded = state.get("config")
    if not isinstance(recorded, Mapping):  # of version 0.2
        return False
    return compare_fingerprints(images_of(stored_config(recorded)).val, images_of(config).val).same is False


def how_to_measure(run: Path, config: RunConfig) -> str:
    """Describe how to measure the weights of a run on other validation images."""
    val = config.data.val_path
    other = f" --val {val}" if val is not None else ""
    return f"`radial-vicreg probe {run}{other}` measures its weights on these images"


def begun_precision(checkpoint: Path) -> str | None:
    """Return the effective precision with which the run of a checkpoint began; None if it is not known."""
    run = run_around(checkpoint)
    if run is not None and run.results.effective is not None and run.results.effective.precision is not None:
        return run.results.effective.precision
    precision = _state(read_checkpoint(checkpoint)).get("precision")
    return precision if isinstance(precision, str) else None


def run_around(checkpoint: Path) -> StoredRun | None:
    """Find the run in whose folder a checkpoint lies, if it is a run of this program, in the layout of either host."""
    return read_stored_run(folder_of_run(checkpoint))


def _recorded(content: Mapping[str, Any], run: StoredRun | None, named: str) -> tuple[Identity, Images]:
    """Find the run of a checkpoint, from the checkpoint itself or else from the results next to it.

    Returns:
        Identity and images of the run.
    """
    state = _state(content)
    recorded = state.get("config")
    try:
        if isinstance(recorded, Mapping):
            config = stored_config(recorded)
            return Identity.of(config, int(state["processes"])), images_of(config)
        if run is not None:
            return run.results.identity, run.results.images
    except (KeyError, TypeError, ValueError):  # results of another program
        pass
    raise UserError(
        f"{named} does not contain its configuration, and there is no {RESULTS} of its run next to it: move it "
        f"back into its run's folder (RUN/{CHECKPOINTS}/, or that of solo-learn's script)"
    )


def _state(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state of the callback :data:`WRITER` in a checkpoint; empty if it has none."""
    callbacks = content.get("callbacks")
    state = callbacks.get(WRITER) if isinstance(callbacks, Mapping) else None
    return state if isinstance(state, Mapping) else {}


def _in_words(found: list[tuple[str, Any, Any]]) -> str:
    return first_of([f"{key} is {_shown(one)} there and {_shown(other)} here" for key, one, other in found])


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _leave_out(option: str) -> str:
    return f"omit {option} to start a new run"


def _remedy(option: str) -> str:
    return f"use its settings to resume it, or {_leave_out(option)} with these"
