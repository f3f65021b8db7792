"""Stop a run whose loss is no longer a number, without stalling a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from radial_vicreg.errors import RunFailed

# fp16's gradient scaler starts at 2^16 and halves after each overflow; after 16 overflows in a row it has reached 1.
_SCALER_PATIENCE = 16


class NonFiniteLossError(RunFailed):
    """The loss or one of its terms is NaN or infinite."""


class FiniteGuard:
    """Watch the loss terms of every step.

    On a CPU they are checked at once. On a GPU they are copied to pinned memory without blocking and checked one step
    later, when the copy is complete. The terms are already averaged over the processes, and a mean with a NaN is NaN,
    so all processes stop at the same step.

    Args:
        loss_scaling: True under fp16 mixed precision, where the gradient scaler skips a step with an overflow; then
            only 16 such steps in a row stop the run.
        last_checkpoint: returns the path of the newest checkpoint, for the message.
    """

    def __init__(self, loss_scaling: bool = False, last_checkpoint: Callable[[], str | None] = lambda: None) -> None:
        self.last_checkpoint = last_checkpoint
        self.patience = _SCALER_PATIENCE if loss_scaling else 0
        self._bad_steps = 0
        self._pending: tuple[Tensor, list[str], int, torch.cuda.Event] | None = None

    def watch(self, names: list[str], values: Tensor, step: int) -> None:
        """Check the terms of one step.

        Args:
            names: name of each term.
            values: shape ``(len(names),)``, the same on every process.
            step: index of the step, for the message.

        Raises:
            NonFiniteLossError: this step's terms (CPU) or the previous step's (GPU) are not finite.
        """
        if values.device.type != "cuda":
            self._check(names, values, step)
            return
        self.flush()
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        host.copy_(values.detach(), non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()
        self._pending = (host, names, step, copied)

    def flush(self) -> None:
        """Check a step that is still pending; called at the end of an epoch, before its checkpoint.

        Raises:
            NonFiniteLossError: that step's terms are not finite.
        """
        if self._pending is not None:
            kept, names, step, copied = self._pending
            self._pending = None
            copied.synchronize()
            self._check(names, kept, step)

    def check_weights(self, weights: Iterable[Tensor], step: int) -> None:
        """Check the weights after the last step of an epoch; one pass over them, and one synchronisation with a GPU.

        A finite loss can lead to non-finite weights: without this check, the epoch's checkpoint would hold them.

        Args:
            weights: every parameter; equal on every process.
            step: number of steps done, for the message.

        Raises:
            NonFiniteLossError: one of them is not finite.
        """
        sums = torch.stack([weight.detach().float().sum() for weight in weights])
        # A sum of finite weights overflows only if the weights are unusable anyway.
        if not bool(sums.isfinite().all()):
            raise self.error(f"weights are not finite after step {step}")

    def error(self, what: str) -> NonFiniteLossError:
        """Make an error that names the problem, the settings to change, and the checkpoint to resume from."""
        checkpoint = self.last_checkpoint()
        return NonFiniteLossError(
            f"{what}. The network has diverged: lower optimizer.lr, lengthen scheduler.warmup_epochs, or set "
            "method_kwargs.radial_ce_normalize=true. "
            + ("There is no checkpoint yet." if checkpoint is None else f"Last good checkpoint: {checkpoint}")
        )

    def _check(self, names: list[str], values: Tensor, step: int) -> None:
        finite = torch.isfinite(values)
        if bool(finite.all()):
            self._bad_steps = 0
            return
        self._bad_steps += 1
        if self._bad_steps > self.patience:
            bad = [name for name, ok in zip(names, finite.tolist(), strict=True) if not ok]
            raise self.error(f"not finite at step {step}: {', '.join(bad)}")
