"""What both hosts do with a batch: projector, objective, logging, callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from radial_vicreg.callbacks import RadiusMonitor, ResultsWriter, build_online_probes
from radial_vicreg.distributed import mean_over_ranks
from radial_vicreg.hosts.guard import FiniteGuard, NonFiniteLossError
from radial_vicreg.hosts.method_kwargs import build_objective

if TYPE_CHECKING:
    _Base = pl.LightningModule
else:
    _Base = object

_PROGRESS_BAR = ("loss", "radius_mean")


class RadialTraining(_Base):
    """Mixin for a LightningModule with a backbone: adds projector, objective, logged terms and callbacks.

    The host calls :meth:`add_radial_parts` once its backbone and classifier exist (the order of initialisation decides
    which random numbers each layer gets) and :meth:`radial_step` in ``training_step``.
    """

    cfg: DictConfig
    host: str
    results_folder: str | None = None  # None: beside solo-learn's checkpoints

    def add_radial_parts(self, cfg: DictConfig, features_dim: int) -> None:
        """Builds projector and objective.

        Args:
            cfg: the whole configuration; ``method_kwargs`` are checked ones.
            features_dim: width of the backbone's output.
        """
        kwargs = cfg.method_kwargs
        self.objective_dim: int = kwargs.proj_output_dim
        self.projector = build_projector(features_dim, kwargs.proj_hidden_dim, kwargs.proj_output_dim)
        self.objective = build_objective(kwargs, seed=int(cfg.get("seed") or 0))
        self._guard: FiniteGuard | None = None

    def radial_step(self, z1: Tensor, z2: Tensor, class_loss: Tensor) -> Tensor:
        """Objective of one batch plus the online probe's loss; logs every term as ``train_<term>``.

        Args:
            z1: projector output of the first view, shape ``(N, d)``.
            z2: projector output of the second view, shape ``(N, d)``.
            class_loss: loss of the online probe, 0-d.

        Returns:
            The loss to minimise, 0-d.

        Raises:
            NonFiniteLossError: the loss is NaN or infinite (see :class:`FiniteGuard`).
                On a CPU the message names the view and the count of the embeddings that are not finite.
        """
        try:
            loss: Tensor = self.objective(z1, z2) + class_loss
        except ValueError as error:
            if all(bool(z.isfinite().all()) for z in (z1, z2)):
                raise
            # On a CPU the loss itself refuses them: a run that failed, and not wrong input.
            raise NonFiniteLossError(f"at step {self.global_step}: {error}") from error
        # One collective for all terms instead of one each.
        terms = {**self.objective.terms, "loss": loss.detach()}
        names = list(terms)
        values = mean_over_ranks(torch.stack([terms[name].float() for name in names]))
        if self._guard is None:
            self._guard = FiniteGuard(loss_scaling=str(self.trainer.precision).startswith("16-mixed"))
        self._guard.watch(names, values, self.global_step)
        for name, value in zip(names, values.unbind(), strict=True):
            self.log(f"train_{name}", value, on_step=True, on_epoch=True, prog_bar=name in _PROGRESS_BAR)
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Judges the last step of an epoch before a checkpoint is written."""
        if self._guard is not None and self.trainer.is_last_batch:
            self._guard.flush()

    def configure_callbacks(self) -> list[pl.Callback]:
        """Attaches probes, radius monitor and the writer of ``results.json`` to any trainer, solo-learn's included."""
        callbacks: list[pl.Callback] = []
        crop_size = int(self.cfg.augmentations[0].crop_size)
        probes: Any = OmegaConf.to_container(self.cfg.get("probes") or OmegaConf.create({}), resolve=True)
        if probes and not self.cfg.data.get("no_labels", False):
            callbacks.append(build_online_probes(probes, crop_size, seed=int(self.cfg.get("seed") or 0)))
        diagnostics = self.cfg.get("diagnostics") or {}
        if diagnostics.get("enabled", True):
            callbacks.append(
                RadiusMonitor(
                    crop_size=crop_size,
                    every_n_epochs=diagnostics.get("every_n_epochs", 10),
                    max_images=diagnostics.get("max_images", 10_000),
                )
            )
        callbacks.append(ResultsWriter(self.results_config(), host=self.host, folder=self.results_folder))
        return callbacks

    def results_config(self) -> dict[str, Any]:
        """The configuration as it was written, resolved; for ``results.json``."""
        return OmegaConf.to_container(self.cfg, resolve=True)  # type: ignore[return-value]


def build_projector(features_dim: int, hidden_dim: int, output_dim: int) -> nn.Sequential:
    """VICReg's three-layer projector.

    Args:
        features_dim: input width.
        hidden_dim: width of both hidden layers.
        output_dim: width d of the embeddings.

    Returns:
        Linear, BatchNorm, ReLU, twice, and a last linear layer.
    """
    return nn.Sequential(
        nn.Linear(features_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, hidden_dim),
        nn.BatchNorm1d(hidden_dim),
        nn.ReLU(),
        nn.Linear(hidden_dim, output_dim),
    )
