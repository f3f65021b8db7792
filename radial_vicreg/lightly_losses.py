"""Losses from lightly with the interface of ours: they take the views and have named terms.

The groups ``radialvicreg/method=lejepa``, ``visreg`` and ``barlow`` use them. Defaults are those of each paper.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor, nn

from radial_vicreg.errors import MissingPackageError, UserError


class LeJEPALoss(nn.Module):
    r"""LeJEPA (Balestriero and LeCun, 2025): :math:`(1-\lambda)` invariance :math:`+\,\lambda` SIGReg.

    The invariance is the mean squared distance of every view to the centre of the global ones; SIGReg is the
    Epps-Pulley statistic over random directions.

    Args:
        lambda_param: :math:`\lambda`, within [0, 1].
        num_slices: number of random directions in each call.
        knots: number of points of the integral.
        t_max: upper limit of the integral.
        global_views: number of global views, which come first and define the centre.
        gather_distributed: compute SIGReg over all ranks, as the paper does.

    Raises:
        MissingPackageError: lightly is not installed.
        ValueError: an argument out of its range.
    """

    def __init__(
        self,
        lambda_param: float = 0.05,
        num_slices: int = 1024,
        knots: int = 17,
        t_max: float = 3.0,
        global_views: int = 2,
        gather_distributed: bool = True,
    ) -> None:
        super().__init__()
        found = _lightly("lejepa_loss", "LeJEPALoss")(
            lambda_param=lambda_param,
            gather_distributed=gather_distributed,
            sigreg_knots=knots,
            sigreg_t_max=t_max,
            sigreg_num_vectors=num_slices,
        )
        self.lambda_param, self.global_views = lambda_param, _checked_views(global_views)
        self.sigreg = found.sigreg

    def forward(self, *views: Tensor) -> dict[str, Tensor]:
        """Compute ``loss``, ``invariance`` and ``sigreg`` of views ``(N, d)``, each 0-d."""
        # lightly's loss class requires at least one local view, its functions do not.
        from lightly.loss.lejepa_loss import lejepa_invariance_loss

        projected = torch.stack(views)
        invariance = lejepa_invariance_loss(all_proj=projected, global_proj=projected[: self.global_views])
        sigreg = self.sigreg(projected)
        loss = self.lambda_param * sigreg + (1.0 - self.lambda_param) * invariance
        return {"loss": loss, "invariance": invariance.detach(), "sigreg": sigreg.detach()}


class VISRegLoss(nn.Module):
    r"""VISReg (Wu et al., 2026): :math:`(1-\lambda)` invariance :math:`+\,\lambda` (scale + shape + centre).

    Args:
        lambda_param: :math:`\lambda`, within [0, 1]; the paper uses 0.9 for ImageNet and 0.6 for small data.
        num_slices: number of random directions in each call.
        global_views: number of global views, which come first and define the centre of the invariance.
        gather_distributed: compute statistics over all ranks; the paper computes them on each rank.

    Raises:
        MissingPackageError: lightly is not installed.
        ValueError: an argument out of its range.
    """

    def __init__(
        self,
        lambda_param: float = 0.9,
        num_slices: int = 4096,
        global_views: int = 2,
        gather_distributed: bool = False,
    ) -> None:
        super().__init__()
        self.global_views = _checked_views(global_views)
        self.loss = _lightly("visreg_loss", "VISRegLoss")(
            lambda_param=lambda_param, num_slices=num_slices, gather_distributed=gather_distributed
        )

    def forward(self, *views: Tensor) -> dict[str, Tensor]:
        """Compute ``loss``, ``invariance``, ``scale``, ``shape`` and ``center`` of views ``(N, d)``, each 0-d."""
        projected = torch.stack(views)
        parts = self.loss.forward_components(
            global_proj=projected[: self.global_views], local_proj=projected[self.global_views :]
        )
        terms = {"invariance": parts.pred, "scale": parts.scale, "shape": parts.shape, "center": parts.center}
        return {"loss": parts.total, **{name: term.detach() for name, term in terms.items()}}


class BarlowTwinsLoss(nn.Module):
    r"""Barlow Twins (Zbontar et al., 2021): drives the cross-correlation of two views towards the identity.

    Args:
        lambda_param: weight :math:`\lambda` of the redundancy term.
        gather_distributed: average the cross-correlation over all ranks, as the authors do. Each rank normalises
            embeddings by its own mean and deviation, so several ranks do not equal one process with the whole batch.

    Raises:
        MissingPackageError: lightly is not installed.
    """

    def __init__(self, lambda_param: float = 5e-3, gather_distributed: bool = True) -> None:
        super().__init__()
        self.loss = _lightly("barlow_twins_loss", "BarlowTwinsLoss")(
            lambda_param=lambda_param, gather_distributed=gather_distributed
        )

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        """Compute the loss of two views ``(N, d)``, 0-d."""
        loss: Tensor = self.loss(z1, z2)
        return loss


def _lightly(module: str, name: str) -> Any:
    try:
        found = importlib.import_module(f"lightly.loss.{module}")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{name} needs lightly 1.6 or newer ({error}): pip install 'radial-vicreg[lightly]'"
        ) from error
    return getattr(found, name)


def _checked_views(count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise UserError(f"global_views must be an integer of 1 or more, got {count!r}")
    return count
