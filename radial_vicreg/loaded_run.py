"""Finished runs of either host, or of solo-learn's main_pretrain.py, opened without solo-learn."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radial_vicreg.checkpoints import CHECKPOINTS, find_checkpoint, read_checkpoint
from radial_vicreg.compose import stored_config
from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.keys import METHODS
from radial_vicreg.models import Encoder, build_encoder
from radial_vicreg.random_state import own_random_numbers
from radial_vicreg.results import RESULTS, ForeignResults, RunResults
from radial_vicreg.stored_runs import single_run


@dataclass
class LoadedRun:
    """A run that was opened.

    Attributes:
        folder: the run's: ``results.json`` or ``args.json`` lies there.
        checkpoint: the file.
        config: of the run.
        model: in evaluation mode, on the CPU.
        results: what ``results.json`` says; None without one.
        epoch: epochs that the checkpoint has seen; None for an untrained network.
    """

    folder: Path
    checkpoint: Path
    config: RunConfig
    model: Encoder
    results: RunResults | None = None
    epoch: int | None = None


def open_run(path: str | Path, untrained: bool = False) -> LoadedRun:
    """Open a run folder or a checkpoint.

    Args:
        path: folder of a run of ``radial-vicreg pretrain`` (``results.json``, ``checkpoints/last.ckpt``) or of
            solo-learn (``args.json`` and ``*.ckpt``), a checkpoint inside one, or a folder above a single run.
        untrained: random weights from the run's seed instead of the checkpoint's.

    Returns:
        The run.

    Raises:
        UserError: nothing is there, or several runs are; no configuration beside the checkpoint, a file that is not a
            checkpoint, or weights that do not fit the configuration.
    """
    checkpoint = find_checkpoint(single_run(path))
    folder = checkpoint.parent.parent if checkpoint.parent.name == CHECKPOINTS else checkpoint.parent
    config, results = _configuration(folder)
    with own_random_numbers(config.seed):
        model = build_encoder(config)
    epoch = None
    if not untrained:
        content = read_checkpoint(checkpoint)
        epoch = content.get("epoch")
        epoch = epoch + 1 if isinstance(epoch, int) else None
        _fill(model, content["state_dict"], checkpoint)
    return LoadedRun(folder, checkpoint, config, model.eval(), results, epoch)


def _configuration(folder: Path) -> tuple[RunConfig, RunResults | None]:
    results, args = None, folder / "args.json"
    if (folder / RESULTS).is_file():
        try:
            results = RunResults.read(folder / RESULTS)
        except ForeignResults:  # somebody else's, beside solo-learn's own run
            if not args.is_file():
                raise
    if results is None and not args.is_file():
        raise UserError(f"{folder} has neither results.json nor args.json, so the network's shape is unknown")
    content = _read_json(args) if results is None else results.config
    method = content.get("method")
    # A run with a loss of its own has the same network, and its loss is not looked at.
    if method not in (None, *METHODS) and not content.get("loss"):
        raise UserError(f"{folder} is a run of {method}: only runs of radial-vicreg can be opened")
    try:
        return stored_config(content), results
    except UserError as error:
        raise UserError(f"{folder} is no run of VICReg or Radial-VICReg: in its configuration, {error}") from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error})") from error
    return content if isinstance(content, dict) else {}


def _fill(model: Encoder, state: dict[str, Any], checkpoint: Path) -> None:
    wanted = ("backbone.", "projector.")
    weights = {name: value for name, value in state.items() if name.startswith(wanted)}
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:  # other names and shapes, or no tensors
        raise UserError(f"the weights in {checkpoint} do not fit its configuration: {error}") from error
