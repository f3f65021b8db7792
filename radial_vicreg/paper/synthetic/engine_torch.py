"""A batch of runs on one device: the batched gradient, replayed as a CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from radial_vicreg.errors import UserError
from radial_vicreg.io.notices import warn
from radial_vicreg.names.counts import counted
from radial_vicreg.paper.synthetic.gradient import DIVERGED_MEAN_SQUARE, gradient, stack_weights
from radial_vicreg.paper.synthetic.settings import Objective
from radial_vicreg.runtime.devices import usable_device

Array = NDArray[np.float64]

CHUNK = 1000
"""Number of steps whose rates are copied to the device at once."""
_WARMUP_STEPS = 3
"""Number of eager steps before a graph is captured, which CUDA graphs require; their effect is undone."""
_NOT_DIVERGED = -1


class TorchEngine:
    """Gradient descent of a batch of runs that share N, d, kind and m; each run has its own weights and rates.

    Steps do not synchronise with the device: the step counter, the rates and the record of divergence are stored
    there. A diverged run keeps its last finite points and does not affect the others.

    Args:
        points: starting points, shape ``(B, N, d)``; copied.
        objectives: one objective per run.
        device: torch device.

    Raises:
        UserError: shapes or objectives do not agree, points are not finite, or the device is not available.
    """

    def __init__(
        self,
        points: Array,
        objectives: Sequence[Objective],
        device: str | torch.device = "cpu",
    ) -> None:
        if points.ndim != 3 or len(points) != len(objectives) or points.shape[1] < 2:
            raise UserError(
                f"points must have shape (B, N, d) with N >= 2 and one objective per run, got {points.shape} and "
                f"{len(objectives)} objectives"
            )
        if not np.isfinite(points).all():
            raise UserError(
                f"points must be finite, got {counted(int((~np.isfinite(points)).sum()), 'infinite or NaN value')}"
            )
        shared = {(objective.objective, objective.spacing(points.shape[1])) for objective in objectives}
        if len(shared) != 1:
            raise UserError(f"runs of a batch must share kind and m, got {sorted(shared)}")
        self._kind, self._spacing = shared.pop()
        self._z = torch.tensor(points, dtype=torch.float64, device=usable_device(device))
        self._weights = stack_weights(objectives, self._z)
        self._rates = self._z.new_zeros(CHUNK, len(points))
        self._row = torch.zeros(1, dtype=torch.long, device=device)
        self._step = torch.zeros(1, dtype=torch.long, device=device)
        self._diverged_at = torch.full((len(points),), _NOT_DIVERGED, dtype=torch.long, device=device)
        self._graph = self._captured() if self._z.is_cuda else None

    def advance(self, rates: Array) -> None:
        """Make one step for every row of ``rates``, shape ``(steps, B)``."""
        for start in range(0, len(rates), CHUNK):
            chunk = rates[start : start + CHUNK]
            self._rates[: len(chunk)].copy_(torch.from_numpy(np.ascontiguousarray(chunk)))
            self._row.zero_()
            for _ in range(len(chunk)):
                if self._graph is None:
                    self._make_step()
                else:
                    self._graph.replay()

    @property
    def points(self) -> Array:
        """Current points, shape ``(B, N, d)``, float64."""
        return self._z.cpu().numpy()

    @property
    def diverged_at(self) -> list[int | None]:
        """The step at which each run diverged, or None."""
        return [None if step == _NOT_DIVERGED else step for step in self._diverged_at.tolist()]

    @torch.no_grad()
    def _make_step(self) -> None:
        rate = self._rates.index_select(0, self._row)[0, :, None, None]
        moved = self._z - rate * gradient(self._z, self._kind, self._weights, self._spacing)
        # Also False for NaN.
        sane = moved.square().sum(2).mean(1) < DIVERGED_MEAN_SQUARE
        alive = self._diverged_at == _NOT_DIVERGED
        self._diverged_at.copy_(torch.where(alive & ~sane, self._step, self._diverged_at))
        self._z.copy_(torch.where((alive & sane)[:, None, None], moved, self._z))
        self._row += 1
        self._step += 1

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        """Capture the step as a CUDA graph; warn and return None if that fails (the step then runs eagerly)."""
        start = self._z.clone()
        graph = torch.cuda.CUDAGraph()
        captured: torch.cuda.CUDAGraph | None = graph
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARMUP_STEPS):
                    self._make_step()
            torch.cuda.current_stream().wait_stream(stream)
            with torch.cuda.graph(graph):
                self._make_step()
        except RuntimeError as error:
            warn(f"the step could not be captured as a CUDA graph and runs slower: {error}")
            captured = None
        self._z.copy_(start)
        self._row.zero_()
        self._step.zero_()
        self._diverged_at.fill_(_NOT_DIVERGED)
        return captured
