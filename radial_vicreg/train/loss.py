"""The loss of a run: Radial-VICReg's, or any other that the configuration names."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from radial_vicreg.config import RunConfig
from radial_vicreg.config.sections import LossConfig
from radial_vicreg.errors import ReportedError, UserError
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.probes import HOST_STEP_METRICS
from radial_vicreg.names.terms import LOSS_DEFAULTS
from radial_vicreg.runtime.random_state import own_random_numbers
from radial_vicreg.train.first_checks import cannot_build

_LOGGED_BY_THE_HOST = ("class_loss", *HOST_STEP_METRICS)


def build_objective(config: RunConfig) -> RadialVICRegLoss | CustomLoss:
    """Build the loss of a configuration.

    Args:
        config: configuration of a run, as its user wrote it: a ``loss`` imports code, so it must never come from an
            untrusted file.

    Returns:
        A module that is called with the views, each of shape ``(N, d)``, and returns a 0-d tensor; ``terms`` then maps
        names to 0-d tensors without gradient.

    Raises:
        UserError: the loss cannot be imported or built.
    """
    if config.loss is not None:
        return CustomLoss(config.loss)
    settings = config.method_kwargs.model_dump(include=set(LOSS_DEFAULTS))
    # The seed is for the samples from chi.
    return RadialVICRegLoss(**{**settings, "radial_objective": config.radial_objective}, seed=config.seed)


def check_objective(config: RunConfig, device: torch.device) -> None:
    """Call a custom loss with random embeddings, so that its errors are found before a file is written.

    Args:
        config: configuration of a run; without a ``loss`` there is nothing to check.
        device: device on which to call the loss.

    Raises:
        UserError: the loss cannot be built, does not take the views, or does not return a valid result.
    """
    if config.loss is None:
        return
    shape = (config.views, config.optimizer.batch_size, config.method_kwargs.proj_output_dim)
    with own_random_numbers(0, device):
        loss = CustomLoss(config.loss).to(device)
        views = torch.randn(shape, device=device, requires_grad=True)
        loss(*views)


class CustomLoss(nn.Module):
    """A custom loss that a configuration names, with the interface of ours.

    The custom loss gets the views outside of autocast and at least in float32. It returns a 0-d tensor, or a dictionary
    of 0-d tensors and numbers with the key ``loss``; the other entries are logged. Its attribute ``terms`` is logged as
    well if it is a dictionary.

    Args:
        settings: target and arguments of the loss.

    Raises:
        UserError: the loss cannot be imported or built.

    Attributes:
        terms: terms of the last call, 0-d, without gradient.
    """

    def __init__(self, settings: LossConfig) -> None:
        super().__init__()
        self.target = str(settings.target)
        self.loss = _instantiated(settings)
        self.terms: dict[str, Tensor] = {}

    def forward(self, *views: Tensor) -> Tensor:
        """Compute the loss of all views.

        Args:
            views: each of shape ``(N, d)``.

        Returns:
            0-d tensor.

        Raises:
            UserError: the loss takes another number of views, or does not return a valid result.
        """
        self._check_call(views)
        with torch.autocast(views[0].device.type, enabled=False):
            wide = [z if z.dtype == torch.float64 else z.float() for z in views]
            returned = self.loss(*wide)
        parts = dict(returned) if isinstance(returned, Mapping) else {"loss": returned}
        loss = parts.pop("loss", None)
        if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
            raise self._refused(f"returned {_shown(returned)}")
        if torch.is_grad_enabled() and not loss.requires_grad:
            raise self._refused("returned a number without gradient")
        kept = getattr(self.loss, "terms", None)
        self._keep({**(kept if isinstance(kept, Mapping) else {}), **parts, "loss": loss})
        return loss

    def _check_call(self, views: tuple[Tensor, ...]) -> None:
        called = self.loss.forward if isinstance(self.loss, nn.Module) else self.loss
        try:
            inspect.signature(called).bind(*views)
        except TypeError as error:
            raise UserError(
                f"loss._target_={self.target} cannot be called with {len(views)} views ({error}): it receives "
                "(z1, z2) with loss_views=pair, and every view with loss_views=all"
            ) from error
        except ValueError:  # a built-in without a signature
            return

    def _keep(self, parts: Mapping[str, Any]) -> None:
        terms: dict[str, Tensor] = {}
        for name, value in parts.items():
            term = torch.as_tensor(value, device=parts["loss"].device).detach()
            if not isinstance(name, str) or term.dim() or name in _LOGGED_BY_THE_HOST:
                raise self._refused(f"returned {name!r}: {_shown(value)}")
            terms[name] = term
        if self.terms and terms.keys() != self.terms.keys():
            raise self._refused(f"returned {', '.join(terms)} after {', '.join(self.terms)}")
        self.terms = terms

    def _refused(self, what: str) -> UserError:
        return UserError(
            f"loss._target_={self.target} {what}: it must return a 0-d floating-point tensor with gradient, or a"
            " dictionary with one under 'loss' and, at every step, the same other numbers for the log (not named"
            f" {', '.join(_LOGGED_BY_THE_HOST)})"
        )


def _instantiated(settings: LossConfig) -> Any:
    from hydra.errors import HydraException
    from hydra.utils import instantiate

    if os.getcwd() not in sys.path:  # as with `python -m`; the folder of a script comes first
        sys.path.append(os.getcwd())
    try:
        loss = instantiate(settings.given(), _convert_="all")
    except HydraException as error:
        causes = _causes(error)
        if (ours := next((cause for cause in causes if isinstance(cause, ReportedError)), None)) is not None:
            raise ours from error
        reason = " ".join(str(causes[-1]).split()).rstrip(".")
        raise cannot_build(str(settings.target), reason) from error
    if not callable(loss):
        raise UserError(f"loss._target_={settings.target} is {_shown(loss)}, which cannot be called with the views")
    return loss


def _causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) is not None and cause not in found:
        found.append(cause)
    return found


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and type {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Mapping):
        return f"a dictionary of {', '.join(map(str, value)) or 'nothing'}"
    return f"{type(value).__name__} {value!r}"[:80]
