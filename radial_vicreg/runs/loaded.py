"""Open finished runs of either host, or of solo-learn's main_pretrain.py, without solo-learn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from radial_vicreg.compose import arguments_config
from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.names.terms import METHODS
from radial_vicreg.nets.models import Encoder, build_encoder
from radial_vicreg.runs.checkpoints import find_checkpoint, folder_of_run, leads_to, read_checkpoint
from radial_vicreg.runs.origin import Images, images_of
from radial_vicreg.runs.results import RESULTS, RunResults, UnrecognizedResults
from radial_vicreg.runs.stored import ARGUMENTS, is_of_script, single_run
from radial_vicreg.runtime.random_state import own_random_numbers


@dataclass
class LoadedRun:
    """An opened run.

    Attributes:
        folder: folder of the run, with ``results.json`` or ``args.json``.
        checkpoint: the checkpoint file.
        config: configuration of the run.
        model: the network in evaluation mode, on the CPU.
        results: content of ``results.json``; None without this file. Its figures may be of another epoch, see
            :attr:`figures`.
        epoch: epochs that the checkpoint has seen; None for an untrained network.
        step: steps that it has seen; None for an untrained network.
    """

    folder: Path
    checkpoint: Path
    config: RunConfig
    model: Encoder
    results: RunResults | None = None
    epoch: int | None = None
    step: int | None = None

    @property
    def hashes(self) -> dict[str, str | None]:
        """The run's ``config_hash`` and ``experiment_hash`` according to the current rules; None without results."""
        return {"config_hash": None, "experiment_hash": None, **(self.results.identity.hashes if self.results else {})}

    @property
    def images(self) -> Images:
        """The run's images, as far as its results identify them."""
        return images_of(self.config) if self.results is None else self.results.measured_images()

    @property
    def figures(self) -> RunResults | None:
        """The results if their figures are of the checkpoint's epoch; None if they are of another."""
        return self.results if _same_epoch(self.results, self.epoch) else None


def open_run(path: str | Path, untrained: bool = False) -> LoadedRun:
    """Open a run folder or a checkpoint.

    A folder, or its ``last.ckpt``, stands for the network to which the figures in ``results.json`` belong. For the
    weights of another epoch, give their file.

    Args:
        path: folder of a run of ``radial-vicreg pretrain`` (``results.json``, ``checkpoints/last.ckpt``) or of
            solo-learn (``args.json`` and ``*.ckpt``), a checkpoint inside one, or a folder above a single run.
        untrained: random weights from the run's seed instead of the checkpoint's.

    Returns:
        The run.

    Raises:
        UserError: there is no run, or there are several; the checkpoint has no configuration next to it, is not a
            checkpoint, or has weights that do not fit the configuration; or the newest checkpoint is of another epoch
            than the figures.
    """
    path = single_run(path)
    checkpoint = find_checkpoint(path)
    folder = folder_of_run(checkpoint)
    config, results = _configuration(folder)
    with own_random_numbers(config.seed):
        model = build_encoder(config)
    epoch = step = None
    if not untrained:
        content = read_checkpoint(checkpoint)
        epoch, step = content.get("epoch"), content.get("global_step")
        epoch, step = epoch + 1 if isinstance(epoch, int) else None, step if isinstance(step, int) else None
        if not _is_chosen(path):
            _refuse_another_epoch(folder, results, checkpoint, epoch)
        _fill(model, content["state_dict"], checkpoint)
    return LoadedRun(folder, checkpoint, config, model.eval(), results, epoch, step)


def _configuration(folder: Path) -> tuple[RunConfig, RunResults | None]:
    results = None
    if (folder / RESULTS).is_file():
        try:
            results = RunResults.read(folder / RESULTS)
        except UnrecognizedResults:  # another program's, in the folder of a solo-learn run
            if not is_of_script(folder):
                raise
    if results is None and not is_of_script(folder):
        raise UserError(f"{folder} has neither {RESULTS} nor {ARGUMENTS}, so the network's shape is unknown")
    content = _read_json(folder / ARGUMENTS) if results is None else results.config
    method = content.get("method")
    # A run with a custom loss has the same network, and its loss is not needed.
    if method not in (None, *METHODS) and not content.get("loss"):
        raise UserError(f"{folder} is a run of {method}: only runs of radial-vicreg can be opened")
    try:
        return arguments_config(content) if results is None else results.requested, results
    except UserError as error:
        raise UserError(f"{folder} is not a run of VICReg or Radial-VICReg: in its configuration, {error}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error})") from error
    return content if isinstance(content, dict) else {}


def _is_chosen(path: Path) -> bool:
    """Return whether a path names the weights of a given epoch, and not the newest ones."""
    return path.is_file() and leads_to(path) is None


def _same_epoch(results: RunResults | None, epoch: int | None) -> bool:
    """Return whether figures and weights are of the same epoch; an unknown epoch counts as the same."""
    return results is None or None in (results.epochs, epoch) or results.epochs == epoch


def _refuse_another_epoch(folder: Path, results: RunResults | None, checkpoint: Path, epoch: int | None) -> None:
    if results is None or _same_epoch(results, epoch):
        return
    file = checkpoint.with_name(checkpoint.resolve().name)
    resume = f"main_pretrain.py and resume_from_checkpoint={file}" if is_of_script(folder) else "ckpt=auto"
    raise UserError(
        f"{folder} has results of epoch {results.epochs} ({RESULTS}) and weights of epoch {epoch} ({file.name}, "
        f"its newest checkpoint): resume the run with {resume} to get both of one epoch, or pass {file} to use "
        "the weights without the results"
    )


def _fill(model: Encoder, state: Mapping[str, Tensor], checkpoint: Path) -> None:
    wanted = ("backbone.", "projector.")
    weights = {name: value for name, value in state.items() if name.startswith(wanted)}
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:  # other names and shapes, or no tensors
        raise UserError(f"the weights in {checkpoint} do not fit its configuration: {error}") from error
