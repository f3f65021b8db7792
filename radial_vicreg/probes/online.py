"""Probes that learn while a network trains, from features that it has computed anyway."""

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
    """Train heads on detached features: AdamW without decay, its rate annealed to 0 by a cosine.

    Args:
        heads: what builds each, by name.
        total_steps: length of the cosine; None keeps the rate.
        lr: first rate. Adam's steps do not depend on the scale of the features, which changes during training.
        seed: of the initial weights; the same on every process. No generator's state is changed.
        device: where the features are.
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
        """Take one optimizer step of every head; gradients are averaged over the processes.

        Args:
            features: input of each head, ``(N, F)``; no gradient flows back. Values that are not finite, as in a
                step that fp16's gradient scaler skips, count as 0.
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
            # A function of the step alone: a run resumed with more epochs follows their cosine from its first step.
            rate = warmup_cosine_lr(self.steps, self.lr, warmup=0, total=self.total_steps, start_lr=self.lr, min_lr=0.0)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        self.optimizer.step()
        self.steps += 1

    @torch.no_grad()
    def scores(self, features: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """Compute logits ``(N, outputs)`` of every head."""
        for name, head in self.heads.items():
            yield name, head(features[name].float())

    def state_dict(self) -> dict[str, Any]:
        """Keep tensors, numbers and plain containers: they must load with ``weights_only=True``."""
        return {"heads": dict(self.heads.state_dict()), "optimizer": self.optimizer.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.heads.load_state_dict(state["heads"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = state["steps"]

    def _average_gradients(self) -> None:
        gradients = [p.grad for p in self.heads.parameters() if p.grad is not None]
        flat = mean_over_ranks(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))


class FeatureBank:
    """Features and targets of an epoch's first images, which are random ones because epochs are shuffled.

    Kept in float16 on the training device: 50,000 images of 512 features take 51 MB.

    Args:
        limit: most images to keep on each process.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._features: list[Tensor] = []
        self._targets: list[Tensor] = []
        self._count = 0

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add a batch, as far as there is room.

        Args:
            features: ``(N, F)``.
            targets: ``(N,)`` or ``(N, A)``.
        """
        room = self.limit - self._count
        if room <= 0:
            return
        # Cosine similarity needs directions only, and a unit vector never overflows float16.
        unit = torch.nn.functional.normalize(features[:room].float(), dim=1)
        self._features.append(unit.half())
        self._targets.append(targets[:room].clone())
        self._count += len(unit)

    def gathered(self, all_gather: Any) -> tuple[Tensor, Tensor] | None:
        """Gather features ``(M, F)`` float32 and targets from all processes; None when the bank is empty.

        Args:
            all_gather: the module's: tensor ``(n, ...)`` to ``(processes, n, ...)``, or itself with one process.
        """
        if not self._features:
            return None
        features, targets = torch.cat(self._features), torch.cat(self._targets)
        gathered_features, gathered_targets = all_gather(features), all_gather(targets)
        width = features.shape[1]
        return gathered_features.reshape(-1, width).float(), gathered_targets.reshape(-1, *targets.shape[1:])
