"""The card of an export: the network, its training, and how to build it without this package."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from radial_vicreg import __version__
from radial_vicreg.errors import UserError
from radial_vicreg.io.secrets import without_secrets
from radial_vicreg.names.choices import EXPORT_FILES, HUB_FORMAT
from radial_vicreg.nets.models import timm_architecture
from radial_vicreg.runs.checkpoints import file_checksum
from radial_vicreg.runs.loaded import LoadedRun
from radial_vicreg.runs.results import RunResults

CITATION = (
    "Yilun Kuang, Yash Dagade, Deep Chakraborty, Erik Learned-Miller, Randall Balestriero, Tim G. J. Rudner, "
    "Yann LeCun: Radial-VCReg: More Informative Representation Learning Through Radial Gaussianization, "
    "UniReps workshop 2025, arXiv 2602.14272 (2026)"
)
_FROM_RESULTS = ("name", "method", "host", "seed", "status", "versions", "git_commit")


def make_card(run: LoadedRun, fmt: str) -> dict[str, Any]:
    """Make the card of a run's backbone.

    Args:
        run: the run.
        fmt: one of :data:`radial_vicreg.export.FORMATS`.

    Returns:
        The card, without the checksum of the weights.

    Raises:
        UserError: the format is torchvision and the network is a ViT, or the Hub and timm does not have the network.
    """
    from radial_vicreg.data.augmentation import mean_and_std

    name, arguments = run.config.backbone.name, run.config.backbone.arguments()
    is_timms = timm_architecture(name) is not None
    small_stem = not is_timms and run.config.has_small_stem
    if fmt == "torchvision" and is_timms:
        raise UserError(f"torchvision has no {name}; use --format timm, safetensors or hf")
    if fmt == HUB_FORMAT and (small_stem or (arguments and not is_timms)):  # those of a ResNet are torchvision's
        what = "the small-image stem" if small_stem else f"the arguments {arguments}"
        raise UserError(f"timm, which --format {fmt} requires, has no {name} with {what}; use --format safetensors")
    library = "timm" if is_timms or fmt in ("timm", HUB_FORMAT) else "torchvision"
    mean, std = mean_and_std(run.config.data.dataset, run.config.augmentations[0])
    settings: Any = getattr(run.model.backbone, "pretrained_cfg", None)  # timm's
    architecture = str(settings["architecture"]) if is_timms else name
    config = without_secrets(run.config.plain()) if run.results is None else run.results.config
    training = {key: getattr(run.results, key, None) for key in _FROM_RESULTS}
    if run.figures is None:
        training["status"] = None  # the status refers to the final weights of the run
    return {
        "format": fmt,
        "library": library,
        "architecture": architecture,
        "arguments": arguments,
        "small_stem": small_stem,
        "build": _build_lines(library, architecture, arguments, small_stem, EXPORT_FILES[fmt]),
        "weights": EXPORT_FILES[fmt],
        "feature_dim": _feature_dim(run.model.backbone, run.config.crop_size),
        "image_size": run.config.crop_size,
        "normalisation": {"mean": list(mean), "std": list(std)},
        "training": training | run.hashes | {"epoch": run.epoch},
        "config": _without_folders(config) if fmt == HUB_FORMAT else config,
        "metrics": _metrics(run.figures),
        "checkpoint_sha256": file_checksum(run.checkpoint),
        "radial_vicreg": __version__,
        "citation": CITATION,
    }


def _build_lines(
    library: str, architecture: str, arguments: Mapping[str, Any], small_stem: bool, file: str
) -> list[str]:
    """Write code that builds the network without this package."""
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


@torch.no_grad()
def _feature_dim(backbone: nn.Module, size: int) -> int:
    return int(backbone.eval()(torch.zeros(1, 3, size, size)).shape[1])


def _without_folders(value: Any) -> Any:
    """Reduce every absolute path to its last part, so that published cards do not contain home directories."""
    if isinstance(value, dict):
        return {key: _without_folders(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_folders(item) for item in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def _metrics(results: RunResults | None) -> dict[str, object]:
    """Select the probes and the final radii, without the histogram and the history in results.json."""
    probes = None if results is None else results.probes
    final = None if results is None else results.radii.final
    return {
        "probes": None if probes is None else probes.plain(),
        "radii": None if final is None else {k: value for k, value in final.plain().items() if k != "histogram"},
    }
