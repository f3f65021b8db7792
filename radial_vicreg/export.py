"""Backbones of finished runs as plain files for torchvision, timm and safetensors, proven equal to the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radial_vicreg import __version__
from radial_vicreg.checkpoints import file_checksum, read_tensors
from radial_vicreg.errors import MissingPackageError, UserError
from radial_vicreg.files import claim_output, write_json
from radial_vicreg.loaded_run import LoadedRun, open_run
from radial_vicreg.models import (
    TIMM_NAMES,
    TORCHVISION_NAMES,
    apply_small_stem,
    refuse_file_arguments,
)
from radial_vicreg.provenance import identity_of
from radial_vicreg.results import RunResults
from radial_vicreg.secrets import without_secrets

FORMATS = ("torchvision", "timm", "safetensors")
CARD = "card.json"
"""Name of the card beside exported weights."""

CITATION = (
    "Yilun Kuang, Yash Dagade, Deep Chakraborty, Erik Learned-Miller, Randall Balestriero, Tim G. J. Rudner, "
    "Yann LeCun: Radial-VCReg: More Informative Representation Learning Through Radial Gaussianization, "
    "UniReps workshop 2025, arXiv 2602.14272 (2026)"
)
_PROBE_IMAGES = 8
_TOLERANCE = 1e-6  # timm and torchvision may pool in another order


def export_run(path: str | Path, fmt: str, out: str | Path | None = None) -> tuple[Path, dict[str, Any]]:
    """Write the backbone alone and a JSON card, load both back and compare features.

    Args:
        path: run folder or checkpoint, see :func:`radial_vicreg.loaded_run.open_run`.
        fmt: ``"torchvision"`` or ``"timm"``: a state dict in that library's names, ``backbone.pth``;
            ``"safetensors"``: the same in ``backbone.safetensors``.
        out: folder; default: ``<run>/export/<fmt>``.

    Returns:
        The card's file and its content.

    Raises:
        UserError: an unknown format, a ViT for torchvision, a folder that cannot be written, or features that differ
            after loading.
        ImportError: safetensors is not installed.
    """
    if fmt not in FORMATS:
        raise UserError(f"format must be one of {', '.join(FORMATS)}, got {fmt!r}")
    if fmt == "safetensors":
        _safetensors()
    if out is not None:
        claim_output(out, "folder")
    run = open_run(path)
    folder = claim_output(run.folder / "export" / fmt if out is None else out, "folder")
    card = _card(run, fmt)
    weights = folder / card["weights"]
    folder.mkdir(parents=True, exist_ok=True)
    _save(run.model.backbone.state_dict(), weights)
    card["sha256"] = file_checksum(weights)
    card_file = write_json(folder / CARD, card)
    card["largest_difference"] = _prove(run.model.backbone, card_file, int(card["image_size"]))
    return write_json(card_file, card), card


def load_exported(card_file: str | Path) -> nn.Module:
    """Build the network that a card describes and fill in its weights.

    Args:
        card_file: ``card.json``, with the weights beside it.

    Returns:
        Images ``(N, 3, H, W)``, normalised as the card says, to features ``(N, F)``; in evaluation mode.

    Raises:
        UserError: the card is none of ours or names a network that this package does not export, or the weights are
            not those that the card was written for.
    """
    card_file = Path(card_file)
    card = read_card(card_file)
    weights = card_file.parent / card["weights"]
    if not weights.is_file():
        raise UserError(f"{weights} is not there: the weights lie beside their card")
    if file_checksum(weights) != card["sha256"]:
        raise UserError(f"{weights} is not the file that {card_file} describes (another SHA-256)")
    model = _architecture(card["library"], card["architecture"], card["arguments"])
    if card["small_stem"]:
        apply_small_stem(model)
    try:
        model.load_state_dict(_load(weights))
    except (RuntimeError, TypeError, AttributeError) as error:
        raise UserError(f"{weights} does not fit the network of {card_file}: {error}") from error
    return model.eval()


def read_card(file: Path) -> dict[str, Any]:
    """Read a card from anywhere: refuse file names elsewhere, and a network whose making fetches files.

    Args:
        file: ``card.json``.

    Returns:
        Its content.

    Raises:
        UserError: the card is none of ours, or asks for what no export needs.
    """
    try:
        card = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file} is not JSON ({error})") from error
    for key, kind in _CARD.items():
        if not isinstance(card, dict) or not isinstance(card.get(key), kind):
            raise UserError(f"{file} has no {key}: not a card of `radial-vicreg export`")
    if card["weights"] not in _WEIGHTS:
        raise UserError(
            f"{file}: weights must be one of {', '.join(_WEIGHTS)} beside the card, got {card['weights']!r}"
        )
    architectures = TORCHVISION_NAMES if card["library"] == "torchvision" else TIMM_NAMES
    if card["library"] not in ("torchvision", "timm") or card["architecture"] not in architectures:
        raise UserError(f"{file}: {card['library']} {card['architecture']!r} is not a network that is exported")
    refuse_file_arguments(card["arguments"])
    checked: dict[str, Any] = card
    return checked


def _card(run: LoadedRun, fmt: str) -> dict[str, Any]:
    from radial_vicreg.data.augmentation import to_normalised_tensor

    name = run.config.backbone.name
    is_vit = name.startswith("vit")
    library = "timm" if fmt == "timm" or is_vit else "torchvision"
    if fmt == "torchvision" and is_vit:
        raise UserError(f"torchvision has no {name}; use --format timm or safetensors")
    small_stem = not is_vit and run.config.has_small_stem
    arguments = run.config.backbone.arguments()
    size = run.config.crop_size
    normalise = to_normalised_tensor(run.config.data.dataset, run.config.augmentations[0])[-1]
    settings: Any = getattr(run.model.backbone, "pretrained_cfg", None)  # timm's
    architecture = str(settings["architecture"]) if is_vit else name
    weights = _WEIGHTS[fmt == "safetensors"]
    return {
        "format": fmt,
        "library": library,
        "architecture": architecture,
        "arguments": arguments,
        "small_stem": small_stem,
        "build": _build_lines(library, architecture, arguments, small_stem, weights),
        "weights": weights,
        "feature_dim": _feature_dim(run.model.backbone, size),
        "image_size": size,
        "normalisation": {"mean": list(normalise.mean), "std": list(normalise.std)},
        "training": {key: getattr(run.results, key, None) for key in _FROM_RESULTS}
        | identity_of(run.results)
        | {"epoch": run.epoch},
        "config": without_secrets(run.config.plain()) if run.results is None else run.results.config,
        "metrics": _metrics(run.results),
        "checkpoint_sha256": file_checksum(run.checkpoint),
        "radial_vicreg": __version__,
        "citation": CITATION,
    }


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
_WEIGHTS = ("backbone.pth", "backbone.safetensors")
_FROM_RESULTS = ("name", "method", "host", "seed", "status", "versions", "git_commit")


def _build_lines(library: str, architecture: str, arguments: dict[str, Any], small_stem: bool, file: str) -> list[str]:
    """Write the card's recipe, for people who do not have this package."""
    given = "".join(f", {key}={value!r}" for key, value in arguments.items())
    lines = ["import torch"]
    if library == "timm":
        lines += ["import timm", f"model = timm.create_model({architecture!r}, num_classes=0{given})"]
    else:
        lines += ["import torchvision", f"model = torchvision.models.{architecture}({given[2:]})"]
        lines += ["model.fc = torch.nn.Identity()"]
    if small_stem:
        lines += [
            "model.conv1 = torch.nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=2, bias=False)",
            "model.maxpool = torch.nn.Identity()",
        ]
    if file.endswith(".safetensors"):
        return [
            *lines,
            "from safetensors.torch import load_file",
            f"model.load_state_dict(load_file({file!r}))",
        ]
    return [*lines, f"model.load_state_dict(torch.load({file!r}, weights_only=True))"]


def _architecture(library: str, architecture: str, arguments: dict[str, Any]) -> nn.Module:
    try:
        if library == "timm":
            import timm

            model: nn.Module = timm.create_model(architecture, pretrained=False, num_classes=0, **arguments)
            return model
        import torchvision

        resnet: nn.Module = getattr(torchvision.models, architecture)(**arguments)
    except Exception as error:  # TypeError for an unknown argument; for a bad value, anything
        raise UserError(f"{architecture} does not take the card's arguments {arguments}: {error}") from error
    resnet.fc = nn.Identity()
    return resnet


@torch.no_grad()
def _prove(backbone: nn.Module, card_file: Path, size: int) -> float:
    images = torch.randn(_PROBE_IMAGES, 3, size, size, generator=torch.Generator().manual_seed(0))
    expected, found = backbone.eval()(images), load_exported(card_file)(images)
    difference = float((expected - found).abs().max())
    if not difference <= _TOLERANCE * float(expected.abs().max()):
        card_file.unlink()
        raise UserError(f"features differ by {difference:.3g} after loading the export back; the card was removed")
    return difference


@torch.no_grad()
def _feature_dim(backbone: nn.Module, size: int) -> int:
    return int(backbone.eval()(torch.zeros(1, 3, size, size)).shape[1])


def _save(state: dict[str, Tensor], file: Path) -> None:
    state = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    if file.suffix == ".safetensors":
        _safetensors().save_file(state, str(file))
    else:
        torch.save(state, file)


def _load(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".safetensors":
        try:
            loaded: dict[str, Tensor] = _safetensors().load_file(str(file))
        except Exception as error:  # safetensors' own error derives from Exception only
            raise UserError(f"{file} cannot be read as safetensors: {error}") from error
        return loaded
    state: dict[str, Tensor] = read_tensors(file)
    return state


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingPackageError("--format safetensors needs the package: pip install safetensors") from error
    return safetensors.torch


def _metrics(results: RunResults | None) -> dict[str, Any]:
    """Choose the probes and the last radii; their histogram and history stay in results.json."""
    probes = None if results is None else results.probes
    final = None if results is None else results.radii.final
    return {
        "probes": None if probes is None else probes.plain(),
        "radii": None if final is None else {k: value for k, value in final.plain().items() if k != "histogram"},
    }
