"""Probes of the encoder and of the projector that are trained along with the network, without affecting it."""

from __future__ import annotations

from functools import partial
from typing import Any

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from radial_vicreg.config import ProbesConfig
from radial_vicreg.names.probes import FEATURES, HOST_PROBE, logged_name, online_key
from radial_vicreg.probes.metrics import ProbeMetrics, are_attributes
from radial_vicreg.probes.online import FeatureBank, HeadTrainer
from radial_vicreg.probes.registry import switched_on
from radial_vicreg.runs.origin import Images, is_of, origin_of

_OUTPUTS = (*FEATURES.values(), "logits")


class OnlineProbes(pl.Callback):
    """Train the heads of probes on every batch, and evaluate probes without a head (kNN) after validation.

    A forward hook collects ``feats``, ``z`` and ``logits`` of each step, detached, so that nothing is computed twice
    and no gradient can reach the network. Heads and optimizer belong to this callback and never enter the module's
    ``state_dict``. The heads learn from both views of a batch. The bank holds the features of the epoch's first
    views, as training computed them, up to ``knn_bank`` images on each process.

    Validation images that do not have the training resolution (solo-learn validates image folders at 224 pixels) are
    resized and embedded once more, and the host's own linear probe is scored on them as well. For multi-label targets
    the host's probe is always scored here, since a host logs no AUROC.

    Logs ``val_<probe>_acc1`` and ``_acc5``, or the multi-label means; :meth:`results` adds ``online_<probe>`` to
    ``probes`` of ``results.json``.

    Args:
        settings: section ``probes`` of a configuration.
        crop_size: training resolution in pixels.
        seed: seed of the heads' initial weights.
        images: fingerprints of the run's images, recorded with the figures.
    """

    def __init__(self, settings: ProbesConfig, crop_size: int, seed: int = 0, images: Images | None = None) -> None:
        self.settings, self.crop_size, self.seed = settings, crop_size, seed
        self.images = Images() if images is None else images
        uses = [(probe, use.name, FEATURES[use.features], use.learns) for probe, use in switched_on(settings)]
        self._heads = {name: (probe, output) for probe, name, output, learns in uses if learns == "batches"}
        self._voters = {name: (probe, output) for probe, name, output, learns in uses if learns == "bank"}
        self.found: dict[str, dict[str, object]] = {}
        self._trainer: HeadTrainer | None = None
        self._restored: dict[str, Any] | None = None
        self._banks = {output: FeatureBank(settings.knn_bank) for _, output in self._voters.values()}
        self._gathered: dict[str, tuple[Tensor, Tensor] | None] = {}
        self._metrics: dict[str, ProbeMetrics] = {}
        self._outputs: list[dict[str, Tensor]] = []
        self._hook: Any = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Register the hook on the module's forward passes."""
        if self._hook is None:
            self._hook = pl_module.register_forward_hook(self._listen)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remove the hook."""
        if self._hook is not None:
            self._hook.remove()
        self._hook = None
        self._outputs = []

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Empty the bank: it holds features of one epoch."""
        for bank in self._banks.values():
            bank.clear()

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
        for output, bank in self._banks.items():
            bank.add(views[0][output], targets)
        if self._heads:
            if self._trainer is None:
                self._trainer = self._build(trainer, pl_module, views[0], targets)
            outputs_seen = {output for _, output in self._heads.values()}
            joined = {output: torch.cat([view[output] for view in views]) for output in outputs_seen}
            inputs = {name: joined[output] for name, (_, output) in self._heads.items()}
            self._trainer.step(inputs, targets.repeat(len(views), *[1] * (targets.ndim - 1)))

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Collect the bank of every process."""
        self._metrics = {}
        self._gathered = {output: bank.gathered(pl_module.all_gather) for output, bank in self._banks.items()}

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
            scores[HOST_PROBE] = out["logits"]
        if self._trainer is not None:
            scores.update(self._trainer.scores({name: out[output] for name, (_, output) in self._heads.items()}))
        for name, (probe, output) in self._voters.items():
            if (bank := self._gathered.get(output)) is not None:
                votes = probe.votes(*bank, out[output], self._count(pl_module, targets), self.settings)
                scores.update({f"{name}{variant}": value for variant, value in votes.items()})
        for name, value in scores.items():
            if name not in self._metrics:
                self._metrics[name] = ProbeMetrics(value.shape[1], multi_label=are_attributes(targets)).to(value.device)
            self._metrics[name].update(value, targets)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Compute and log the figures."""
        self._gathered = {}
        for name, metrics in self._metrics.items():
            figures = metrics.compute()
            origin = origin_of(self.images, trainer.current_epoch + 1, trainer.global_step)
            self.found[online_key(name)] = {**figures, "origin": origin}
            logged = {logged_name(metric, name): value for metric, value in figures.items() if isinstance(value, float)}
            pl_module.log_dict(logged, sync_dist=True)

    def results(self) -> dict[str, object]:
        """Return ``probes``: the figures of the last validation."""
        return {"probes": dict(self.found)}

    def state_dict(self) -> dict[str, Any]:
        """Keep what a resumed run needs."""
        trainer = self._restored if self._trainer is None else self._trainer.state_dict()
        return {"trainer": trainer, "found": self.found}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; the heads follow with the first batch, which determines their widths.

        Figures of other validation images than this run's are discarded.
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
        count = self._count(module, targets)
        built = HeadTrainer(
            {
                name: partial(probe.head, view[output].shape[1], count, self.settings)
                for name, (probe, output) in self._heads.items()
            },
            total_steps=int(epochs * batches) if epochs > 0 and batches != float("inf") else None,
            lr=self.settings.lr,
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

    Half precision is resized in float32, since antialiasing on a CPU does not support it.
    """
    if images.shape[-1] == size:
        return images
    wide = images if images.dtype in (torch.float32, torch.float64) else images.float()
    return F.interpolate(wide, size=(size, size), mode="bilinear", antialias=True).to(images.dtype)
