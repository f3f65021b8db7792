"""Loading of networks from exported weights and their card, which may be from an untrusted source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from radial_vicreg.errors import MissingPackageError, UserError, reason_of
from radial_vicreg.names.choices import EXPORT_CARD, EXPORT_FILES
from radial_vicreg.names.networks import RESNETS
from radial_vicreg.nets.models import apply_small_stem, refuse_file_arguments
from radial_vicreg.runs.checkpoints import file_checksum, read_tensors

CARD = EXPORT_CARD
"""File name of the card next to exported weights."""

FORMATS = tuple(EXPORT_FILES)

_CARD = {
    "library": str,
    "architecture": str,
    "arguments": dict,
    "small_stem": bool,
    "weights": str,
    "sha256": str,
    "image_size": int,
    "normalisation": dict,
}


def load_exported(card_file: str | Path) -> nn.Module:
    """Build the network that a card describes and load its weights.

    Args:
        card_file: path of ``card.json``, next to the weights.

    Returns:
        Network in evaluation mode that maps images ``(N, 3, H, W)``, normalised according to the card, to features
        ``(N, F)``.

    Raises:
        UserError: the card was not written by this package or names a network that it does not export, or the weights
            do not match the card.
    """
    card_file = Path(card_file)
    card = read_card(card_file)
    weights = card_file.parent / card["weights"]
    if not weights.is_file():
        raise UserError(f"{weights} does not exist: put the weights next to their card")
    if file_checksum(weights) != card["sha256"]:
        raise UserError(f"{weights} does not match {card_file} (different SHA-256)")
    model = _architecture(card["library"], card["architecture"], card["arguments"])
    if card["small_stem"]:
        apply_small_stem(model)
    try:
        model.load_state_dict(_load(weights))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UserError(f"{weights} does not fit the network of {card_file}: {error}") from error
    return model.eval()


def read_card(file: Path) -> dict[str, Any]:
    """Read an untrusted card; refuse files outside its folder, and networks whose construction downloads files.

    Args:
        file: path of ``card.json``.

    Returns:
        Its content.

    Raises:
        UserError: the card was not written by this package, or requests something that no export needs.
    """
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON ({error})") from error
    for key, kind in _CARD.items():
        if not isinstance(card, dict) or not isinstance(card.get(key), kind):
            raise UserError(f"{file} has no {key}: it is not a card of `radial-vicreg export`")
    names = tuple(dict.fromkeys(EXPORT_FILES.values()))
    if card["weights"] not in names:
        raise UserError(f"{file}: weights must be one of {', '.join(names)} next to the card, got {card['weights']!r}")
    if not _is_known(card["library"], card["architecture"]):
        raise UserError(f"{file}: {card['library']} {card['architecture']!r} is not a supported network")
    refuse_file_arguments(card["arguments"])
    checked: dict[str, Any] = card
    return checked


def import_safetensors() -> Any:
    """Import ``safetensors.torch``.

    Raises:
        MissingPackageError: safetensors is not installed.
    """
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingPackageError("this format needs safetensors: pip install safetensors") from error
    return safetensors.torch


def _is_known(library: str, architecture: str) -> bool:
    if library != "timm":
        return library == "torchvision" and architecture in RESNETS
    import timm

    return ":" not in architecture and timm.is_model(architecture)  # hf-hub:NAME would be downloaded


def _architecture(library: str, architecture: str, arguments: Mapping[str, Any]) -> nn.Module:
    try:
        if library == "timm":
            import timm

            model: nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
            return model
        import torchvision

        resnet: nn.Module = getattr(torchvision.models, architecture)(**arguments)
    except Exception as error:  # TypeError for an unknown argument, any exception for a bad value
        raise UserError(f"{architecture} does not take the card's arguments {arguments}: {reason_of(error)}") from error
    resnet.fc = nn.Identity()
    return resnet


def _load(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".safetensors":
        safetensors = import_safetensors()
        try:
            loaded: dict[str, Tensor] = safetensors.load_file(str(file))
        except Exception as error:  # SafetensorError derives directly from Exception
            raise UserError(f"{file} cannot be read as safetensors: {error}") from error
        return loaded
    state: dict[str, Tensor] = read_tensors(file)
    return state
