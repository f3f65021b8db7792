"""Backbones of timm and torchvision by name, without their heads, with their own image transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import timm
import torchvision
from torch import nn

from radial_vicreg.errors import UnreachableError, UserError
from radial_vicreg.gaussianity.forms import LIBRARIES
from radial_vicreg.gaussianity.images import Transform, guarded, plain_transform
from radial_vicreg.names.data_sets import channel_statistics
from radial_vicreg.names.hints import nearest
from radial_vicreg.runtime.random_state import own_random_numbers

_IMAGENET_SIZE = 224  # pixels
_IMAGENET_CLASSES = 1000


def build_named(library: str, name: str, pretrained: bool, seed: int) -> tuple[nn.Module, Transform]:
    """Build a backbone of a library.

    Args:
        library: ``"timm"`` or ``"torchvision"``.
        name: name in the library; for timm, with or without a tag.
        pretrained: load its default weights, downloaded or from the library's cache.
        seed: seed of the random weights if not pretrained.

    Returns:
        Network in evaluation mode that maps images ``(N, 3, H, W)`` to features, and its transform of an RGB image.

    Raises:
        UserError: the name is unknown, or the network cannot be built.
        UnreachableError: its weights cannot be downloaded.
    """
    with own_random_numbers(seed):
        model, transform = _LIBRARIES[library](name, pretrained)
    return model.eval(), transform


def _timm(name: str, pretrained: bool) -> tuple[nn.Module, Transform]:
    if not timm.is_model(name):
        raise _unknown("timm", name, timm.list_models())
    model = _built("timm", name, pretrained, lambda: timm.create_model(name, pretrained=pretrained, num_classes=0))
    data: Any = timm.data  # has no type hints
    settings = data.resolve_model_data_config(model)
    return model, guarded(data.create_transform(**settings, is_training=False))


def _torchvision(name: str, pretrained: bool) -> tuple[nn.Module, Transform]:
    models = torchvision.models
    names = models.list_models(module=models)  # classification models only
    if name not in names:
        raise _unknown("torchvision", name, names)
    weights = models.get_model_weights(name).DEFAULT if pretrained else None
    model = _built("torchvision", name, pretrained, lambda: models.get_model(name, weights=weights))
    _remove_head(model, name)
    if weights is None:
        return model, plain_transform(_IMAGENET_SIZE, *channel_statistics("imagenet"))
    return model, guarded(weights.transforms())


_LIBRARIES: dict[str, Callable[[str, bool], tuple[nn.Module, Transform]]] = {
    "timm": _timm,
    "torchvision": _torchvision,
}
assert tuple(_LIBRARIES) == LIBRARIES
"""Libraries that may precede the colon in a source."""


def _built(library: str, name: str, pretrained: bool, build: Callable[[], nn.Module]) -> nn.Module:
    try:
        return build()
    except Exception as error:  # urllib, huggingface_hub and timm raise their own types
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        if pretrained and isinstance(error, OSError):
            raise UnreachableError(
                f"the weights of {library}:{name} cannot be downloaded ({reason}): use --no-pretrained for random "
                "weights"
            ) from error
        raise UserError(f"{library}:{name} cannot be built: {reason}") from error


def _remove_head(model: nn.Module, name: str) -> None:
    """Remove the last linear layer in place; torchvision calls it fc, classifier, head or heads."""
    layers = [(place, layer) for place, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    place, head = layers[-1] if layers else ("", None)
    if head is None or head.out_features != _IMAGENET_CLASSES:
        raise UserError(
            f"torchvision:{name} does not end with a linear layer of {_IMAGENET_CLASSES} classes, which would be "
            "removed"
        )
    parent, _, last = place.rpartition(".")
    setattr(model.get_submodule(parent), last, nn.Identity())


def _unknown(library: str, name: str, names: list[str]) -> UserError:
    near = nearest(name, names)
    known = "timm.list_models()" if library == "timm" else "torchvision.models.list_models()"
    hint = f"{known} lists what it has" if near is None else f"did you mean {library}:{near}?"
    return UserError(f"{library} has no model {name!r}; {hint}")
