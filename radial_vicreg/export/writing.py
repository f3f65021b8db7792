"""Export of a run's backbone, verified by loading it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor, nn

from radial_vicreg.errors import UserError
from radial_vicreg.export import hub
from radial_vicreg.export.card import make_card
from radial_vicreg.export.loading import CARD, FORMATS, import_safetensors, load_exported
from radial_vicreg.io.files import atomic_file, claim_output, write_json
from radial_vicreg.io.outputs import claim_file, json_with
from radial_vicreg.names.choices import EXPORT_FILES, HUB_FORMAT
from radial_vicreg.runs.checkpoints import file_checksum
from radial_vicreg.runs.loaded import open_run

_SETTING = "--out DIR"
_PROBE_IMAGES = 8
_REPLACED = "replaced_sha256"  # in a card while weights are written: checksum of the previous weights
_TOLERANCE = 1e-6  # timm and torchvision may pool in a different order


def export_run(path: str | Path, fmt: str, out: str | Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Write the backbone and a JSON card, load both again and compare features.

    Args:
        path: run folder or checkpoint, see :func:`radial_vicreg.runs.loaded.open_run`.
        fmt: ``"torchvision"`` or ``"timm"``: a state dict in that library's names, ``backbone.pth``;
            ``"safetensors"``: the same in ``backbone.safetensors``; ``"hf"``: a repository for the Hugging Face Hub
            that timm loads, see :mod:`radial_vicreg.export.hub`.
        out: folder; default: ``<run>/export/<fmt>``.

    Returns:
        The card's file and its content.

    Raises:
        UserError: the format is unknown or does not support the network; the folder cannot be written, or holds a model
            card (``"hf"``) or weights or a card that no export wrote; or features differ after loading.
        ImportError: safetensors is not installed.
    """
    if fmt not in FORMATS:
        raise UserError(f"format must be one of {', '.join(FORMATS)}, got {fmt!r}")
    if EXPORT_FILES[fmt].endswith(".safetensors"):
        import_safetensors()
    if out is not None:
        claim_output(out, "folder", setting=_SETTING)
    run = open_run(path)
    folder = claim_output(run.folder / "export" / fmt if out is None else out, "folder", setting=_SETTING)
    weights = _claim_files(folder, fmt)
    card = make_card(run, fmt)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(weights) as stream:
        _serialise(run.model.backbone.state_dict(), weights, stream)
        stream.flush()
        card["sha256"] = file_checksum(stream.name)
        # The weights get their name after the card, so that the old ones are still recognised if the export is killed
        # in between.
        replaced = {_REPLACED: file_checksum(weights)} if weights.is_file() else {}
        card_file = write_json(folder / CARD, card | replaced)
    try:
        card["largest_difference"] = _largest_difference(run.model.backbone, card_file, card)
    except Exception:
        card_file.unlink()
        weights.unlink()
        raise
    if fmt == HUB_FORMAT:
        write_json(folder / hub.CONFIG, hub.timm_config(card))
        with atomic_file(folder / hub.MODEL_CARD) as stream:
            stream.write(hub.model_card(card).encode())
    return write_json(card_file, card), card


@torch.no_grad()
def _largest_difference(backbone: nn.Module, card_file: Path, card: Mapping[str, Any]) -> float:
    """Compare features of the checkpoint with those of the export, loaded in every supported way."""
    size = card["image_size"]
    images = torch.randn(_PROBE_IMAGES, 3, size, size, generator=torch.Generator().manual_seed(0))
    loaded = [load_exported(card_file)]
    if card["format"] == HUB_FORMAT:
        loaded.append(hub.load_with_timm(card, card_file.parent / card["weights"]))
    expected = backbone.eval()(images)
    difference = max(float((expected - model(images)).abs().max()) for model in loaded)
    if not difference <= _TOLERANCE * float(expected.abs().max()):
        raise UserError(f"features differ by {difference:.3g} after loading the export back; the export was removed")
    return difference


def _claim_files(folder: Path, fmt: str) -> Path:
    """Refuse to replace a card that no export wrote, or weights that do not match the card next to them.

    A model card, in which a user may have filled in a license, and timm's configuration are never replaced.
    """
    for name in (hub.MODEL_CARD, hub.CONFIG) if fmt == HUB_FORMAT else ():
        if (folder / name).exists():
            raise UserError(f"{folder / name} already exists: move it away, or choose another folder with --out")
    card = claim_file(folder / CARD, json_with("library", "architecture", "weights", "sha256"), "export")

    def is_described(weights: Path) -> bool:
        known = json.loads(card.read_text(encoding="utf-8")) if card.is_file() else {}
        named = known.get("weights") == weights.name
        return named and file_checksum(weights) in (known["sha256"], known.get(_REPLACED))

    return claim_file(folder / EXPORT_FILES[fmt], is_described, "export")


def _serialise(state: dict[str, Tensor], file: Path, stream: IO[bytes]) -> None:
    state = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    if file.suffix == ".safetensors":
        stream.write(import_safetensors().save(state))  # the library has no writer of streams
    else:
        torch.save(state, stream)
