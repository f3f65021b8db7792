"""Additional files of an export for the Hugging Face Hub: timm's configuration and a model card.

timm loads the repository as ``hf-hub:OWNER/NAME``, and the folder as ``local-dir:FOLDER`` (from 1.0.16 on).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import timm
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from torch import nn

from radial_vicreg.data.build import resized_side
from radial_vicreg.export.loading import CARD
from radial_vicreg.names.probes import METRIC_LABELS
from radial_vicreg.names.terms import METHOD_LABELS, objective_of

CONFIG = "config.json"
MODEL_CARD = "README.md"

_TEMPLATE = "model_card.md.j2"
_METHODS = {
    **METHOD_LABELS,
    "radialvicreg": f"{METHOD_LABELS['radialvicreg']}: {METHOD_LABELS['vicreg']} with a term that matches the "
    "norms of the embeddings to the Chi distribution",
}
_SHARE_DIGITS = 1e6


def timm_config(card: Mapping[str, Any]) -> dict[str, Any]:
    """Build timm's ``config.json``: the architecture and the preprocessing of images.

    Args:
        card: card of the export.

    Returns:
        The configuration, with the preprocessing of our validation.
    """
    architecture, arguments, size = card["architecture"], card["arguments"], card["image_size"]
    default: Any = timm.models.get_pretrained_cfg(architecture)
    # timm resizes the shorter side to floor(size / crop_pct); rounding crop_pct down gives exactly our length.
    share = math.floor(_SHARE_DIGITS * size / resized_side(size)) / _SHARE_DIGITS
    return {
        "architecture": architecture,
        "num_classes": 0,
        "num_features": card["feature_dim"],
        "model_args": arguments,
        "pretrained_cfg": {
            "num_classes": 0,
            "input_size": [3, size, size],
            "fixed_input_size": bool(default.fixed_input_size) and not arguments.get("dynamic_img_size", False),
            "interpolation": "bilinear",
            "crop_pct": share,
            "crop_mode": "center",
            **card["normalisation"],
            "first_conv": default.first_conv,
            "classifier": default.classifier,
        },
    }


def load_with_timm(card: Mapping[str, Any], weights: Path) -> nn.Module:
    """Load an export as timm does from its ``config.json``, in a way that every supported version of timm has.

    Args:
        card: card of the export.
        weights: file of its weights.

    Returns:
        The network, in evaluation mode.
    """
    config = timm_config(card)
    settings = {**config["pretrained_cfg"], "file": str(weights)}
    model: nn.Module = timm.create_model(
        config["architecture"], pretrained=True, pretrained_cfg=settings, **config["model_args"]
    )
    return model.eval()


def model_card(card: Mapping[str, Any]) -> str:
    """Write the model card.

    Args:
        card: card of the export.

    Returns:
        Markdown that starts with the Hub's metadata. The license is a placeholder for the user.
    """
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["cell"] = _cell
    return pages.get_template(_TEMPLATE).render(
        card=card,
        card_file=CARD,
        resized=resized_side(card["image_size"]),
        data=card["config"]["data"].get("name") or card["config"]["data"]["dataset"],
        method=_METHODS.get(card["config"]["method"], "a method with a custom loss"),
        objective=_objective(card["config"]),
        training=_training(card),
        probes=_probes(card["metrics"]["probes"] or {}),
        radii=_radii(card["metrics"]["radii"] or {}),
        own_loss=bool(card["config"].get("loss")),
    )


def _objective(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the loss; for a custom loss, its class and arguments."""
    objective = objective_of(config)
    own = objective.get("loss")
    return objective if own is None else {"loss": own["_target_"], **{k: v for k, v in own.items() if k != "_target_"}}


def _training(card: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """List the main training settings; None for an unknown value."""
    config, training = card["config"], card["training"]
    optimizer, projector = config["optimizer"], config["method_kwargs"]
    sizes = [projector["proj_hidden_dim"], projector["proj_hidden_dim"], projector["proj_output_dim"]]
    versions = training["versions"] or {}
    return [
        ("epochs", f"{'?' if training['epoch'] is None else training['epoch']} of {config['max_epochs']}"),
        ("optimizer", f"{optimizer['name']}, rate {optimizer['lr']:g} for 256 images"),
        ("images per step and process", optimizer["batch_size"]),
        ("projector (not exported)", ", ".join(map(str, sizes))),
        ("seed", training["seed"]),
        ("host", training["host"]),
        ("versions", ", ".join(f"{name} {found}" for name, found in versions.items() if found) or None),
        ("commit of radial-vicreg", training["git_commit"]),
        ("hash of the configuration", training["config_hash"]),
    ]


def _probes(probes: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return the figures of each probe by name; a probe before and after training counts as two."""
    found: dict[str, dict[str, float]] = {}
    for name, figures in probes.items():
        given = figures or {}
        numbers = {key: given[key] for key in METRIC_LABELS if isinstance(given.get(key), (int, float))}
        if numbers:
            found[name] = numbers
        nested = {f"{name}, {key}": value for key, value in given.items() if isinstance(value, Mapping)}
        found |= _probes(nested)
    return found


def _radii(radii: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    """List the statistics of the embeddings' norms in both modes of BatchNorm."""
    keys = ("w1_chi", "radius_mean", "radius_std")
    found = [(mode, [(radii.get(mode) or {}).get(key) for key in keys]) for mode in ("eval", "batch")]
    return [(mode, figures) for mode, figures in found if None not in figures]


def _cell(value: Any) -> str:
    """Format a value for a cell of a Markdown table."""
    text = f"{value:g}" if isinstance(value, float) else " ".join(str(value).split())
    return text.replace("|", "\\|")
