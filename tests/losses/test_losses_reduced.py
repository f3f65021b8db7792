"""What the ranks send each other: second moments when samples are many, embeddings when they are few.

That the results equal those of one process is tested in test_distributed.py; here, two gloo processes count.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from radial_vicreg.losses import RadialVICRegLoss

pytestmark = pytest.mark.slow  # starting two processes takes seconds

WORLD, PER_RANK = 2, 24
TIMEOUT = datetime.timedelta(seconds=60)
#: Many samples for the dimension, and few; 48 is the global batch.
CASES = [(dim, center, number) for dim in (6, 47, 48, 100) for center in (False, True) for number in (2, 3)]
cases = pytest.mark.parametrize(("dim", "center", "number"), CASES)
many_samples = pytest.mark.parametrize(("dim", "center", "number"), [case for case in CASES if case[0] < 48])
few_samples = pytest.mark.parametrize(("dim", "center", "number"), [case for case in CASES if case[0] >= 48])


def _views(dim: int, number: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(WORLD * PER_RANK, dim, generator=generator, dtype=torch.float64)
    others = [z + 0.2 * torch.randn(z.shape, generator=generator, dtype=torch.float64) for _ in range(number - 1)]
    return [z, *others]


class _Counter:
    """Numbers sent in each direction, by collective, while a pass runs."""

    def __init__(self) -> None:
        self.sent: dict[str, list[int]] = {}
        self._originals = {name: getattr(dist, name) for name in ("all_reduce", "all_gather")}

    def __enter__(self) -> _Counter:
        for name, original in self._originals.items():

            def counted(*tensors: Tensor, _name: str = name, _call: Any = original, **kwargs: Any) -> Any:
                self.sent.setdefault(_name, []).append(tensors[-1].numel())
                return _call(*tensors, **kwargs)

            setattr(dist, name, counted)
        return self

    def __exit__(self, *_: object) -> None:
        for name, original in self._originals.items():
            setattr(dist, name, original)


def _worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD, timeout=TIMEOUT)
    own = slice(rank * PER_RANK, (rank + 1) * PER_RANK)
    seen: dict[Any, Any] = {}
    for dim, center, number in CASES:
        views = [z[own].clone().requires_grad_() for z in _views(dim, number)]
        objective = RadialVICRegLoss(radial_center=center, mean_loss_weight=3.0)
        with _Counter() as forward:
            loss = objective(*views)
        with _Counter() as backward:
            loss.backward()
        gradients = [z.grad for z in views]
        seen[dim, center, number] = {"forward": forward.sent, "backward": backward.sent, "gradients": gradients}
    torch.save(seen, f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[Any, Any]]:
    """What every rank saw."""
    folder: Path = tmp_path_factory.mktemp("ranks")
    mp.spawn(_worker, args=(str(folder),), nprocs=WORLD)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(WORLD)]


@many_samples
def test_many_samples_send_second_moments_and_no_embeddings(
    dim: int, center: bool, number: int, ranks: list[dict[Any, Any]]
) -> None:
    sent = ranks[0][dim, center, number]["forward"]
    assert sent["all_reduce"] == [number * dim, number * dim * dim]
    assert sent["all_gather"] == [3, number * PER_RANK], "number of views and batch shape, and the radii"


@few_samples
def test_few_samples_send_embeddings_and_no_matrix(
    dim: int, center: bool, number: int, ranks: list[dict[Any, Any]]
) -> None:
    sent = ranks[0][dim, center, number]["forward"]
    assert sent["all_reduce"] == [number], "the squared norms of the Gram matrices"
    assert sent["all_gather"] == [3, number * PER_RANK * dim, number * PER_RANK]


@cases
def test_the_backward_pass_sends_at_most_a_mean(
    dim: int, center: bool, number: int, ranks: list[dict[Any, Any]]
) -> None:
    assert ranks[0][dim, center, number]["backward"] == ({"all_reduce": [number * dim]} if center else {})


@cases
def test_gradients_equal_those_of_one_process(dim: int, center: bool, number: int, ranks: list[dict[Any, Any]]) -> None:
    views = [z.requires_grad_() for z in _views(dim, number)]
    RadialVICRegLoss(radial_center=center, mean_loss_weight=3.0)(*views).backward()
    for view, z in enumerate(views):
        seen = torch.cat([rank[dim, center, number]["gradients"][view] for rank in ranks]) / WORLD
        torch.testing.assert_close(seen, z.grad, rtol=1e-9, atol=1e-12)
