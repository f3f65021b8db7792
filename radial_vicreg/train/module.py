"""Radial-VICReg as a LightningModule that needs only packages from PyPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torchmetrics.functional.classification import multiclass_accuracy

from radial_vicreg.config import RunConfig
from radial_vicreg.nets.models import build_backbone
from radial_vicreg.nets.optimizers import build_optimizer, build_scheduler
from radial_vicreg.probes.heads import probe_loss
from radial_vicreg.probes.metrics import BalancedAccuracy
from radial_vicreg.train.multi_label import attribute_scores, log_balanced_accuracy
from radial_vicreg.train.step import RadialTraining


class PretrainingModule(RadialTraining, pl.LightningModule):
    """Backbone, online linear probe, projector and objective; the same parts, names and rules as solo-learn's method.

    Parameter names, the order of initialisation, parameter groups, rates and logged names are those of
    :class:`radial_vicreg.solo.method.RadialVICReg`, so that a configuration gives the same run on either host.

    Args:
        config: configuration of the run.
        num_classes: width of the classifier.

    Raises:
        UserError: unknown backbone, dataset, optimizer or scheduler.
    """

    host = "standalone"

    def __init__(self, config: RunConfig, num_classes: int) -> None:
        super().__init__()
        self.config = config
        self.backbone, features_dim = build_backbone(config)
        self.num_classes = num_classes
        self.multi_label = config.data.multi_label
        self.classifier = nn.Linear(features_dim, num_classes)
        self.add_radial_parts(features_dim)
        if self.multi_label:
            self.balanced_accuracy = BalancedAccuracy(num_classes)
        # solo-learn's option and default: 0 to 6 % faster on a CPU with AVX-512, more on a GPU.
        self.channels_last = not config.performance.disable_channel_last
        if self.channels_last:
            self.to(memory_format=torch.channels_last)

    def forward(self, X: Tensor) -> dict[str, Tensor]:
        """Compute features, logits and embeddings of a batch of images.

        Args:
            X: images, shape ``(N, 3, H, W)``.

        Returns:
            ``feats`` ``(N, F)``, ``logits`` ``(N, classes)`` (no gradient flows back to the features) and ``z``
            ``(N, d)``.
        """
        feats = self._features(X)
        return {"feats": feats, "logits": self.classifier(feats.detach()), "z": self.projector(feats)}

    def training_step(self, batch: Sequence[Any], batch_idx: int) -> Tensor:
        """Compute the objective on every view, and the online probe on large views.

        The batch is ``[indexes, [view 1, view 2, ...], targets]``. As in solo-learn, no probe learns from small crops.
        """
        _, views, targets = batch
        large = self.config.large_views
        outs = [self(view) for view in views[:large]]
        small = [self.projector(self._features(view)) for view in views[large:]]
        probes = [self._probe(out["logits"], targets) for out in outs]
        metrics: dict[str, Any] = {name: sum(probe[name] for probe in probes) / len(probes) for name in probes[0]}
        class_loss = metrics.pop("loss")
        return self.radial_step(
            [*(out["z"] for out in outs), *small], class_loss, {"class_loss": class_loss, **metrics}
        )

    def validation_step(self, batch: Sequence[Tensor], batch_idx: int) -> None:
        """Log the online probe's ``val_loss``, ``val_acc1`` and ``val_acc5``, weighted by batch size.

        For multi-label data, ``val_attribute_acc`` and ``val_balanced_accuracy`` replace the accuracies.
        """
        images, targets = batch
        logits = self(images)["logits"]
        metrics = {f"val_{name}": value for name, value in self._probe(logits, targets).items()}
        self.log_dict(metrics, on_step=False, on_epoch=True, sync_dist=True, batch_size=len(targets))
        if self.multi_label:
            log_balanced_accuracy(self, self.balanced_accuracy, logits, targets)

    def configure_optimizers(self) -> Any:
        """Build solo-learn's parameter groups, optimizer and schedule."""
        groups: list[dict[str, Any]] = [
            {"name": "backbone", "params": self.backbone.parameters()},
            {
                "name": "classifier",
                "params": self.classifier.parameters(),
                "lr": self.config.rates.classifier_lr,
                "weight_decay": 0.0,
            },
            {"name": "projector", "params": self.projector.parameters()},
        ]
        if learned := list(self.objective.parameters()):  # a custom loss may have some
            groups.append({"name": "loss", "params": learned})
        optimizer = build_optimizer(self.config, groups)
        return build_scheduler(self.config, optimizer, int(self.trainer.estimated_stepping_batches))

    def _features(self, X: Tensor) -> Tensor:
        if self.channels_last:
            X = X.to(memory_format=torch.channels_last)
        feats: Tensor = self.backbone(X)
        return feats

    def _probe(self, logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
        if self.multi_label:
            loss, accuracy = attribute_scores(logits, targets)
            return {"loss": loss, "attribute_acc": accuracy}
        if self.config.data.no_labels:
            zero = 0.0 * logits.sum()  # keeps the classifier in the graph, which DDP demands
            return {"loss": zero, "acc1": zero.detach(), "acc5": zero.detach()}
        accuracies = {
            f"acc{k}": 100.0
            * multiclass_accuracy(
                logits.detach(),
                targets,
                num_classes=self.num_classes,
                top_k=min(k, self.num_classes),
                average="micro",
                validate_args=False,
            )
            for k in (1, 5)
        }
        return {"loss": probe_loss(logits, targets), **accuracies}
