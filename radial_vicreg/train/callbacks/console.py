"""Output of a run: one line per epoch, for users and for log files, and one bar on a terminal."""

from __future__ import annotations

import logging
import math
import warnings

import lightning.pytorch as pl
from lightning.fabric.utilities.warnings import PossibleUserWarning

from radial_vicreg.config import RunConfig
from radial_vicreg.io.notices import ignore_library_deprecations
from radial_vicreg.io.terminal import Bar
from radial_vicreg.names.probes import HEADLINES, logged_name

_LARGE_SHARE = 0.5  # of the mean squared radius


def quiet_lightning() -> None:
    """Hide Lightning's tips, reports and guesses: this package prints what its users need to know."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=PossibleUserWarning)
    ignore_library_deprecations()


def negative_loss_note(config: RunConfig) -> str | None:
    """Explain why the loss is negative and how low the cross-entropy can get; None if it is positive.

    Args:
        config: configuration of the run.
    """
    settings, free = config.method_kwargs, config.method_kwargs.proj_output_dim - 1
    if config.radial_objective != "kl" or free < 1:
        return None
    lowest = settings.radial_ce_loss_weight * free * (1 - math.log(free))  # two views, every radius at sqrt(d - 1)
    if settings.radial_ce_normalize:
        lowest /= settings.proj_output_dim
    if lowest >= 0:
        return None
    return f"the loss is negative: the radial cross-entropy omits its constant, so its minimum is {lowest:.1f}"


def _offset_note(config: RunConfig, share: float) -> str | None:
    """Report that radii come more from an offset than from spread.

    None if they do not, if no term depends on it, or if a term holds the mean already.

    Args:
        config: configuration of the run.
        share: the epoch's ``embedding_mean_share``.
    """
    settings = config.method_kwargs
    seen = config.radial_objective != "none" and not settings.radial_center and not settings.mean_loss_weight
    if not seen or not share > _LARGE_SHARE:
        return None
    return (
        f"{share:.0%} of the mean squared radius is a common offset of all embeddings, which W1 to chi does "
        "not distinguish from spread; method_kwargs.mean_loss_weight keeps the mean at zero "
        "(radialvicreg/method=radialvicreg_mean)"
    )


class EpochSummary(pl.Callback):
    """Print loss, mean radius, W1 to chi(d) and the online probe after every epoch.

    A radial objective has its target next to the radius. W1 is of the training batches; that of evaluation mode, which
    the end of a run and ``results.json`` have, is measured less often.
    Print one remark if more than half of the mean squared radius is an offset.

    Args:
        config: configuration of the run; the cross-entropy of its d dimensions is smallest at a radius of sqrt(d - 1).
    """

    def __init__(self, config: RunConfig) -> None:
        self._is_radial = config.radial_objective != "none"
        target = math.sqrt(max(config.method_kwargs.proj_output_dim - 1, 0))
        self._target = f" (target {target:.2f})" if self._is_radial else ""
        self.note = negative_loss_note(config)
        self.config = config
        self._said_offset = False

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Explain the sign of the loss before the first line shows it."""
        if self.note is not None and trainer.is_global_zero:
            print(self.note, flush=True)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Print the line."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}

        def mean(name: str) -> float | None:
            return metrics.get(f"train_{name}_epoch", metrics.get(f"train_{name}"))

        parts = [f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"]
        for label, value in (
            ("loss", mean("loss")),
            ("vicreg", mean("vicreg_loss")),
            ("radial", mean("radial_loss") if self._is_radial else None),
        ):
            if value is not None:
                parts.append(f"{label} {value:.3f}")
        radius, w1 = mean("radius_mean"), mean("w1_chi")
        if radius is not None:
            parts.append(f"radius {radius:.2f}{self._target}")
        if w1 is not None:
            parts.append(f"W1 to chi in batches {w1:.2f}")
        for headline, remark in zip(HEADLINES, ("", " (balanced)"), strict=True):
            if (name := logged_name(headline)) in metrics:
                parts.append(f"online probe {metrics[name]:.1f} %{remark}")
        if trainer.is_global_zero:
            print("  ".join(parts), flush=True)  # a log file is read during the run
            self._say_offset(mean("embedding_mean_share"))

    def _say_offset(self, share: float | None) -> None:
        note = None if share is None or self._said_offset else _offset_note(self.config, share)
        if note is not None:
            self._said_offset = True
            print(note, flush=True)


class RunBar(pl.Callback):
    """Show one bar for the whole run; it counts epochs as :class:`EpochSummary` does."""

    def __init__(self) -> None:
        self._bar: Bar | None = None

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show the bar, starting at the first step of the epoch from which the run resumes."""
        if trainer.is_global_zero:
            batches, epochs = trainer.num_training_batches, trainer.max_epochs or 0
            self._bar = Bar(_epoch(trainer), total=batches * epochs, done=batches * trainer.current_epoch)
            self._bar.start()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Name the epoch."""
        if self._bar is not None:
            self._bar.relabel(_epoch(trainer))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        """Count the batch."""
        if self._bar is not None:
            self._bar.advance()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Take the bar away."""
        self._stop()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Remove the bar, so that the last lines stand alone."""
        self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _epoch(trainer: pl.Trainer) -> str:
    return f"epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
