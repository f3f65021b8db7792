"""One line an epoch, for people and for log files."""

from __future__ import annotations

import math

import lightning.pytorch as pl

from radial_vicreg.probes.metrics import BALANCED_ACCURACY


class EpochSummary(pl.Callback):
    """Print loss, mean radius with its target, W1 to chi(d) and the online probe after every epoch.

    Args:
        dim: dimension d of the embeddings; the cross-entropy is smallest at a radius of sqrt(d - 1).
    """

    def __init__(self, dim: int) -> None:
        self.target = math.sqrt(max(dim - 1, 0))

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the line."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}

        def mean(name: str) -> float | None:
            return metrics.get(f"train_{name}_epoch", metrics.get(f"train_{name}"))

        parts = [f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"]
        for label, value in (
            ("loss", mean("loss")),
            ("vicreg", mean("vicreg_loss")),
            ("radial", mean("radial_loss")),
        ):
            if value is not None:
                parts.append(f"{label} {value:.3f}")
        radius, w1 = mean("radius_mean"), mean("w1_chi")
        if radius is not None:
            parts.append(f"radius {radius:.2f} (target {self.target:.2f})")
        if w1 is not None:
            parts.append(f"W1 to chi {w1:.2f}")
        if "val_acc1" in metrics:
            parts.append(f"online probe {metrics['val_acc1']:.1f} %")
        if BALANCED_ACCURACY in metrics:
            parts.append(f"online probe {metrics[BALANCED_ACCURACY]:.1f} % (balanced)")
        if trainer.is_global_zero:
            bar = trainer.progress_bar_callback
            (print if bar is None else bar.print)("  ".join(parts))
