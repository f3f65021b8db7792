"""Opens a finished run of either host, or of solo-learn's main_pretrain.py, without solo-learn."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor, nn

from radial_vicreg.errors import UserError
from radial_vicreg.hosts.config_rules import AUGMENTATION_RULES, RULES
from radial_vicreg.losses import EXTRA_STATE
from radial_vicreg.models import build_backbone
from radial_vicreg.results import RESULTS, ForeignResults, RunResults

_HASH_BLOCK = 1 << 20
_NEEDED = ("backbone.name", "data.dataset", "method_kwargs.proj_hidden_dim", "method_kwargs.proj_output_dim")
_OPTIONAL = ("seed", "data.num_workers", "data.no_labels", "data.multi_label", "data.on_bad_image")
_CHECKED = {key: RULES[key] for key in (*_NEEDED, *_OPTIONAL)} | {
    "augmentations.0.crop_size": AUGMENTATION_RULES["crop_size"]
}
_UNREADABLE = (-2, -2)
_ZIP = b"PK\x03\x04"
_RESUMED = ("epoch", "global_step", "loops", "optimizer_states", "lr_schedulers", "callbacks", "state_dict")


class Encoder(nn.Module):
    """Backbone and projector of a run, without classifier and objective.

    Args:
        backbone: images ``(N, 3, H, W)`` to features ``(N, F)``.
        projector: features to embeddings ``(N, d)``.
    """

    def __init__(self, backbone: nn.Module, projector: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.projector = projector

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """``feats`` ``(N, F)`` and ``z`` ``(N, d)``."""
        feats = self.backbone(images)
        return {"feats": feats, "z": self.projector(feats)}


@dataclass
class LoadedRun:
    """A run that was opened.

    Attributes:
        folder: the run's: ``results.json`` or ``args.json`` lies there.
        checkpoint: the file.
        cfg: resolved configuration.
        model: in evaluation mode, on the CPU.
        results: what ``results.json`` says; None without one.
        epoch: epochs that the checkpoint has seen; None for an untrained network.
    """

    folder: Path
    checkpoint: Path
    cfg: DictConfig
    model: Encoder
    results: RunResults | None = None
    epoch: int | None = None


def open_run(path: str | Path, untrained: bool = False) -> LoadedRun:
    """Opens a run folder or a checkpoint.

    Args:
        path: folder of a run of ``radial-vicreg pretrain`` (``results.json``, ``checkpoints/last.ckpt``) or of
            solo-learn (``args.json`` and ``*.ckpt``), or a checkpoint inside one.
        untrained: random weights from the run's seed instead of the checkpoint's.

    Returns:
        The run.

    Raises:
        UserError: nothing there, no configuration beside the checkpoint, a file that is not a checkpoint, or weights
            that do not fit the configuration.
    """
    checkpoint = find_checkpoint(Path(path))
    folder = checkpoint.parent.parent if checkpoint.parent.name == "checkpoints" else checkpoint.parent
    cfg, results = _configuration(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cfg.get("seed") or 0)
        model = _build(cfg)
    epoch = None
    if not untrained:
        content = read_checkpoint(checkpoint)
        epoch = content.get("epoch")
        epoch = epoch + 1 if isinstance(epoch, int) else None
        _fill(model, content["state_dict"], checkpoint)
    return LoadedRun(folder, checkpoint, cfg, model.eval(), results, epoch)


def find_checkpoint(path: Path) -> Path:
    """The newest checkpoint of a run folder; a checkpoint itself.

    Raises:
        UserError: there is none.
    """
    if path.is_file():
        return path
    if path.is_symlink() and not path.exists():
        return _beside_a_dangling_link(path)
    if not path.is_dir():
        raise UserError(f"{path} does not exist; give a run's folder or a checkpoint")
    last = path / "checkpoints" / "last.ckpt"
    if last.is_file() or last.is_symlink():
        return find_checkpoint(last)
    found = [*path.glob("*.ckpt"), *path.glob("checkpoints/*.ckpt")]
    found = [file for file in found if file.is_file()]  # a link may name what is gone
    if not found:
        raise UserError(f"{path} holds no checkpoint: expected checkpoints/last.ckpt, or *.ckpt beside args.json")
    return found[0] if len(found) == 1 else max(found, key=_progress)


def _beside_a_dangling_link(link: Path) -> Path:
    """The furthest checkpoint beside a link such as ``last.ckpt`` whose own is gone."""
    gone = f"{link} is a link to {os.readlink(link)}, which is gone"
    others = [file for file in link.parent.glob("*.ckpt") if file.is_file()]
    best = max(others, key=_progress, default=None)
    if best is None or _progress(best) == _UNREADABLE:
        raise UserError(f"{gone}, and there is no checkpoint beside it that can be read")
    print(f"{gone}: taking {best.name}")
    return best


def _progress(checkpoint: Path) -> tuple[int, int]:
    """Epochs and steps that a checkpoint says it has seen: file times are those of whoever wrote or copied it last."""
    try:
        content = read_checkpoint(checkpoint)
    except ValueError:
        return _UNREADABLE
    epoch, step = content.get("epoch"), content.get("global_step")
    return epoch if isinstance(epoch, int) else -1, step if isinstance(step, int) else -1


def read_checkpoint(checkpoint: str | Path) -> dict[str, Any]:
    """Loads a checkpoint of Lightning without running code that it may carry.

    Only tensors and plain containers are read (``weights_only``); there is no way to ask for more.

    Args:
        checkpoint: the file.

    Returns:
        Its content, on the CPU; ``state_dict`` maps names to tensors.

    Raises:
        UserError: it is damaged, would run code, or is no checkpoint.
    """
    content = read_tensors(checkpoint)
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(state, dict):
        raise UserError(f"{checkpoint} is not a Lightning checkpoint: it has no state_dict")
    if not all(isinstance(name, str) for name in state):
        raise UserError(f"{checkpoint} is not a Lightning checkpoint: its state_dict does not map names to tensors")
    return content


def check_resumable(checkpoint: str | Path, model: nn.Module) -> None:
    """Checks that a training can go on from a checkpoint, before it starts to.

    Args:
        checkpoint: the file.
        model: what is to be trained.

    Raises:
        UserError: it cannot be read, it holds no state of a training, or it is of another network.
    """
    content = read_checkpoint(checkpoint)
    absent = [key for key in _RESUMED if key not in content]
    if absent:
        raise UserError(f"{checkpoint} holds no state of a training to go on from: it has no {', '.join(absent)}")
    wanted, found = model.state_dict(), content["state_dict"]
    names = {name for name in wanted.keys() | found.keys() if name.rpartition(".")[2] != EXTRA_STATE}
    for name in sorted(names):  # what is no parameter and no buffer has no shape: its module judges it
        mine, other = (getattr(state.get(name), "shape", None) for state in (wanted, found))
        if mine != other:
            shapes = " and ".join("none" if shape is None else str(tuple(shape)) for shape in (other, mine))
            raise UserError(f"{checkpoint} is of another network: the shapes of {name} are {shapes} there and here")


def read_tensors(path: str | Path) -> Any:
    """``torch.load`` without running code, and with one line for whatever is wrong with the file.

    Args:
        path: a file that ``torch.save`` has written.

    Returns:
        Tensors and plain containers, on the CPU.

    Raises:
        UserError: it cannot be read, or would run code.
    """
    try:
        with open(path, "rb") as stream:
            start = stream.read(len(_ZIP))
    except OSError as error:
        raise UserError(f"{path} cannot be read as a checkpoint: {error.strerror or error}") from error
    is_whole = zipfile.is_zipfile(path)
    try:
        if not start or (start == _ZIP and not is_whole):
            raise EOFError
        # Mapped: whether a file can be read, and what is in it, is asked more often than its tensors are used. What is
        # no ZIP archive may be of torch.save's old format, which cannot be mapped.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_whole)
    except Exception as error:  # a damaged or hostile file leads the unpickler to errors of any kind
        raise UserError(f"{path} cannot be read as a checkpoint: {_reason(error, start, is_whole)}") from error


def _reason(error: Exception, start: bytes, is_whole: bool) -> str:
    """Why ``torch.load`` has failed, in our words: PyTorch's advise to load the file without its safeguard."""
    if not start:
        return "it is empty, so its writing was cut short"
    if start == _ZIP and not is_whole:
        return "its end is missing, so its writing or copying was cut short"
    if not is_whole:
        return "it is not a file of torch.save, it is damaged, or it would run code"
    if isinstance(error, pickle.UnpicklingError):
        return "it holds more than tensors and plain containers, and reading that would run code"
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def file_checksum(path: str | Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(_HASH_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _configuration(folder: Path) -> tuple[DictConfig, RunResults | None]:
    results, args = None, folder / "args.json"
    if (folder / RESULTS).is_file():
        try:
            results = RunResults.read(folder / RESULTS)
        except ForeignResults:  # somebody else's, beside solo-learn's own run
            if not args.is_file():
                raise
    if results is None and not args.is_file():
        raise UserError(f"{folder} has neither results.json nor args.json, so the network's shape is unknown")
    config = _read_json(args) if results is None else results.config
    try:
        cfg = OmegaConf.create(config)
        values = {key: OmegaConf.select(cfg, key) for key in _CHECKED}
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"the configuration in {folder} cannot be read: {error}") from error
    if (method := OmegaConf.select(cfg, "method")) not in (None, "vicreg", "radialvicreg"):
        raise UserError(f"{folder} is a run of {method}: only VICReg's and Radial-VICReg's runs can be opened")
    for key, value in values.items():
        if value is None and key in _OPTIONAL:
            continue
        if value is None or not _CHECKED[key].accepts(value):
            what = f"has no {key}" if value is None else f"has {key}={value!r}"
            raise UserError(f"the configuration in {folder} {what}: not a run of VICReg or Radial-VICReg")
    return cfg, results


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error})") from error
    return content if isinstance(content, dict) else {}


def _build(cfg: DictConfig) -> Encoder:
    from radial_vicreg.train.step import build_projector

    backbone, width = build_backbone(cfg)
    kwargs = cfg.method_kwargs
    return Encoder(backbone, build_projector(width, kwargs.proj_hidden_dim, kwargs.proj_output_dim))


def _fill(model: Encoder, state: dict[str, Any], checkpoint: Path) -> None:
    wanted = ("backbone.", "projector.")
    weights = {name: value for name, value in state.items() if name.startswith(wanted)}
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:  # other names and shapes, or no tensors
        raise UserError(f"the weights in {checkpoint} do not fit its configuration: {error}") from error
