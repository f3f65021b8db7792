"""Probes that are trained with a network, on features computed for its own training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from radial_vicreg.nets.schedule import warmup_cosine_lr
from radial_vicreg.probes.heads import probe_loss
from radial_vicreg.runtime.distributed import mean_over_ranks
from radial_vicreg.runtime.random_state import own_random_numbers


class HeadTrainer:
    """Train heads on detached features, with AdamW without weight decay and a cosine schedule to 0.

    Args:
        heads: functions that build the heads, by name.
        total_steps: length of the cosine; None keeps the rate constant.
        lr: initial rate. Adam's steps do not depend on the scale of the features, which changes during training.
        seed: seed of the initial weights, equal in all processes. Global random states are unchanged.
        device: device of the features.
    """

    def __init__(
        self,
        heads: Mapping[str, Callable[[], nn.Module]],
        total_steps: int | None,
        lr: float,
        seed: int,
        device: torch.device,
    ) -> None:
        with own_random_numbers(seed):
            built = {name: build() for name, build in heads.items()}
        self.heads = nn.ModuleDict(built).to(device)
        self.lr, self.total_steps, self.steps = lr, total_steps, 0
        self.optimizer = torch.optim.AdamW(self.heads.parameters(), lr=lr, weight_decay=0.0)

    def step(self, features: Mapping[str, Tensor], targets: Tensor) -> None:
        """Make one optimizer step for every head; gradients are averaged over the processes.

        Args:
            features: input of each head, ``(N, F)``; no gradient flows back. Non-finite values, as in a step that
                fp16's gradient scaler skips, are replaced by 0.
            targets: ``(N,)`` or ``(N, A)``.
        """
        device = targets.device.type
        with torch.enable_grad(), torch.autocast(device, enabled=False):
            losses = [
                probe_loss(head(torch.nan_to_num(features[name].detach().float(), 0.0, 0.0, 0.0)), targets)
                for name, head in self.heads.items()
            ]
            self.optimizer.zero_grad(set_to_none=True)
            torch.stack(losses).sum().backward()
        self._average_gradients()
        if self.total_steps:
            # The rate depends on the step only, so a run resumed with more epochs follows the longer cosine.
            rate = warmup_cosine_lr(self.steps, self.lr, warmup=0, total=self.total_steps, start_lr=self.lr, min_lr=0.0)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        self.optimizer.step()
        self.steps += 1

    @torch.no_grad()
    def scores(self, features: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Yield the logits ``(N, outputs)`` of every head."""
        for name, head in self.heads.items():
            yield name, head(features[name].float())

    def state_dict(self) -> dict[str, Any]:
        """Return the state as tensors, numbers and plain containers, which load with ``weights_only=True``."""
        return {"heads": dict(self.heads.state_dict()), "optimizer": self.optimizer.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state returned by :meth:`state_dict`."""
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]

    def _average_gradients(self) -> None:
        gradients = [p.grad for p in self.heads.parameters() if p.grad is not None]
        flat = mean_over_ranks(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))


class FeatureBank:
    """Features and targets of an epoch's first images, a random subset because epochs are shuffled.

    They are stored in float16 on the training device: 50,000 images with 512 features take 51 MB.

    Args:
        limit: maximum number of images per process.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        """Remove all features."""
        self._features: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._count = 0

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add the images of a batch up to the limit.

        Args:
            features: ``(N, F)``.
            targets: ``(N,)`` or ``(N, A)``.
        """
        room = self.limit - self._count
        if room <= 0:
            return
        # Cosine similarity depends on directions only, and unit vectors do not overflow float16.
        unit = torch.nn.functional.normalize(features[:room].float(), dim=1)
        self._features.append(unit.half())
        self._targets.append(targets[:room].clone())
        self._count += len(unit)

    def gathered(self, all_gather: Any) -> tuple[Tensor, Tensor] | None:
        """Gather features ``(M, F)`` float32 and targets from all processes; None if the bank is empty.

        Args:
            all_gather: method of the module: maps ``(n, ...)`` to ``(processes, n, ...)``; identity with one process.
        """
        if not self._features:
            return None
        features, targets = torch.cat(self._features), torch.cat(self._targets)
        gathered_features, gathered_targets = all_gather(features), all_gather(targets)
        width = features.shape[1]
        return gathered_features.reshape(-1, width).float(), gathered_targets.reshape(-1, *targets.shape[1:])
