"""Probes of the encoder and of the projector that learn beside the network, without touching it."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from radial_vicreg.config import ProbesConfig
from radial_vicreg.origin import Images, is_of, origin_of
from radial_vicreg.probes.knn import knn_scores
from radial_vicreg.probes.metrics import ProbeMetrics, are_attributes
from radial_vicreg.probes.online import FeatureBank, HeadTrainer

_HEADS = {"projector_linear": ("linear", "z"), "mlp": ("mlp", "feats")}
_OUTPUTS = ("feats", "z", "logits")


class OnlineProbes(pl.Callback):
    """Train a linear probe of the projector's output and a 2-layer MLP on the encoder; kNN after validation.

    A forward hook picks up ``feats``, ``z`` and ``logits`` of each step, detached, so that nothing is computed twice
    and no gradient can reach the network; heads and optimizer belong to this callback and never enter the module's
    ``state_dict``. The heads learn from both views of a batch. The kNN's bank holds the features of the epoch's first
    views, as training computed them, up to ``knn_bank`` images on each process.

    Validation images that are not of the training resolution (solo-learn validates image folders at 224 pixels) are
    resized and embedded once more, and the host's own linear probe is scored on these as well. For multi-label targets
    it always is, since a host logs no AUROC.

    Logs ``val_<probe>_acc1`` and ``_acc5``, or the multi-label means; :meth:`results` adds ``online_<probe>`` to
    ``probes`` of ``results.json``.

    Args:
        settings: section ``probes`` of a configuration.
        crop_size: training resolution in pixels.
        seed: of the heads' initial weights.
        images: fingerprints of the run's images, which stand with the figures.
    """

    def __init__(self, settings: ProbesConfig, crop_size: int, seed: int = 0, images: Images | None = None) -> None:
        self.settings, self.crop_size, self.seed = settings, crop_size, seed
        self.images = Images() if images is None else images
        wanted = {"projector_linear": settings.projector_linear, "mlp": settings.encoder_mlp}
        self.head_names = [name for name, on in wanted.items() if on]
        self.neighbours = settings.knn_neighbours if settings.encoder_knn else ()
        self.found: dict[str, dict[str, Any]] = {}
        self._trainer: HeadTrainer | None = None
        self._restored: dict[str, Any] | None = None
        self._bank = FeatureBank(settings.knn_bank)
        self._gathered: tuple[Tensor, Tensor] | None = None
        self._metrics: dict[str, ProbeMetrics] = {}
        self._outputs: list[dict[str, Tensor]] = []
        self._hook: Any = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Start to listen to the module's forward passes."""
        if self._hook is None:
            self._hook = pl_module.register_forward_hook(self._listen)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Leave the module as it was."""
        if self._hook is not None:
            self._hook.remove()
        self._hook = None
        self._outputs = []

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Empty the bank: it holds features of one epoch."""
        self._bank.clear()

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        """Forget forward passes of other callbacks."""
        self._outputs = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Train the heads one step on both views."""
        views, self._outputs, targets = self._outputs, [], batch[-1]
        if not views or not trainer.enable_validation:
            return
        if self.neighbours:
            self._bank.add(views[0]["feats"], targets)
        if self.head_names:
            if self._trainer is None:
                self._trainer = self._build(trainer, pl_module, views[0], targets)
            joined = {key: torch.cat([view[key] for view in views]) for key in {_HEADS[n][1] for n in self.head_names}}
            inputs = {name: joined[_HEADS[name][1]] for name in self.head_names}
            self._trainer.step(inputs, targets.repeat(len(views), *[1] * (targets.ndim - 1)))

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Collect the bank of every process."""
        self._metrics = {}
        self._gathered = self._bank.gathered(pl_module.all_gather) if self.neighbours else None

    def on_validation_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *args: Any) -> None:
        """Forget forward passes of other callbacks."""
        self._outputs = []

    @torch.no_grad()
    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Score one batch."""
        if trainer.sanity_checking or not self._outputs:
            return
        out, targets = self._outputs[-1], batch[-1]
        resized = resize_to(batch[-2], self.crop_size)
        if resized is not batch[-2]:
            out = pl_module(resized)
        self._outputs = []
        scores: dict[str, Tensor] = {}
        if are_attributes(targets) or resized is not batch[-2]:
            scores["linear"] = out["logits"]
        if self._trainer is not None:
            scores.update(self._trainer.scores({name: out[_HEADS[name][1]] for name in self.head_names}))
        if self._gathered is not None:
            classes, temperature = self._count(pl_module, targets), self.settings.knn_temperature
            votes = knn_scores(*self._gathered, out["feats"], self.neighbours, classes, temperature)
            scores.update({f"knn{k}": value for k, value in votes.items()})
        for name, value in scores.items():
            if name not in self._metrics:
                self._metrics[name] = ProbeMetrics(value.shape[1], multi_label=are_attributes(targets)).to(value.device)
            self._metrics[name].update(value, targets)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compute and log the figures."""
        self._gathered = None
        for name, metrics in self._metrics.items():
            figures = metrics.compute()
            origin = origin_of(self.images, trainer.current_epoch + 1, trainer.global_step)
            self.found[f"online_{name}"] = {**figures, "origin": origin}
            logged = {
                f"val_{name}_{key.replace('top', 'acc')}": value
                for key, value in figures.items()
                if isinstance(value, float)
            }
            pl_module.log_dict(logged, sync_dist=True)

    def results(self) -> dict[str, Any]:
        """Give ``probes``: the figures of the last validation."""
        return {"probes": dict(self.found)}

    def state_dict(self) -> dict[str, Any]:
        """Keep what a resumed run needs."""
        trainer = self._restored if self._trainer is None else self._trainer.state_dict()
        return {"trainer": trainer, "found": self.found}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; the heads follow with the first batch, which tells their widths.

        Figures of other validation images than this run's are no figures of it.
        """
        self._restored = state_dict["trainer"]
        found = state_dict["found"]
        self.found = {name: figures for name, figures in found.items() if is_of(figures.get("origin"), self.images)}

    def _listen(self, module: Any, inputs: Any, output: Any) -> None:
        if isinstance(output, dict) and all(key in output for key in _OUTPUTS):
            self._outputs.append({key: output[key].detach() for key in _OUTPUTS})

    def _build(self, trainer: pl.Trainer, module: Any, view: dict[str, Tensor], targets: Tensor) -> HeadTrainer:
        batches = trainer.num_training_batches
        epochs = trainer.max_epochs or 0
        built = HeadTrainer(
            {name: (_HEADS[name][0], view[_HEADS[name][1]].shape[1]) for name in self.head_names},
            outputs=self._count(module, targets),
            total_steps=int(epochs * batches) if epochs > 0 and batches != float("inf") else None,
            lr=self.settings.lr,
            hidden_dim=self.settings.mlp_hidden_dim,
            seed=self.seed,
            device=targets.device,
        )
        if self._restored is not None:
            built.load_state_dict(self._restored)
        return built

    @staticmethod
    def _count(module: Any, targets: Tensor) -> int:
        return int(targets.shape[1]) if are_attributes(targets) else int(module.num_classes)


def resize_to(images: Tensor, size: int) -> Tensor:
    """Resize images ``(N, 3, H, W)`` to ``size`` by ``size`` pixels; a tensor of that width is returned as it is.

    Halves are resized in float32, since a CPU has no antialiasing for them.
    """
    if images.shape[-1] == size:
        return images
    wide = images if images.dtype in (torch.float32, torch.float64) else images.float()
    return F.interpolate(wide, size=(size, size), mode="bilinear", antialias=True).to(images.dtype)
