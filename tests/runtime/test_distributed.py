"""Two and three gloo processes against one process that holds the whole batch, and what they send each other.

Starting processes costs seconds, so one group of workers runs every case and writes what it saw; the tests
read it.
"""

from __future__ import annotations

import datetime
import itertools
import multiprocessing
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from objectives import CASES as CASES_OF_EACH
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from radial_vicreg.losses import RadialVICRegLoss, radial_reverse_kl_loss, radial_wasserstein_loss
from radial_vicreg.runtime import distributed

GLOBAL_BATCH = 12
STEPS = 2
#: Long enough for a slow machine; a hang fails with it instead of blocking the suite.
TIMEOUT = datetime.timedelta(seconds=60)

#: Every objective, and weights of zero where no term needs what another one makes.
OBJECTIVES: dict[str, dict[str, Any]] = {
    **CASES_OF_EACH,
    "without_cross_entropy": {"radial_ce_loss_weight": 0.0, "radial_ent_loss_weight": 0.5},
    "without_entropy": {"radial_ce_loss_weight": 100.0, "radial_ent_loss_weight": 0.0},
    "without_either": {"radial_ce_loss_weight": 0.0, "radial_ent_loss_weight": 0.0},
    "wasserstein_alone": {
        "radial_objective": "wasserstein",
        "radial_w1_loss_weight": 3.0,
        "sim_loss_weight": 0.0,
        "var_loss_weight": 0.0,
        "cov_loss_weight": 0.0,
    },
}
#: Embedding dimension below and above the global batch size.
DIMENSIONS = {"more_samples_than_d": 4, "fewer_samples_than_d": 20}
#: Every objective in both dimensions, the numbers of views in turn.
CASES = [
    (*case, number)
    for case, number in zip(itertools.product(OBJECTIVES, DIMENSIONS), itertools.cycle((2, 3, 8)), strict=False)
]
PER_RANK = 24
#: Dimensions that make a global batch one of many samples, or of few, by the number of processes; with and without a
#: centre, with two and three views.
SENT: list[tuple[Callable[[int], int], bool, int]] = [
    (lambda world: 6, False, 2),
    (lambda world: world * PER_RANK - 1, True, 3),
    (lambda world: world * PER_RANK, False, 3),
    (lambda world: 4 * PER_RANK, True, 2),
]


def _network(dim: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, dim)).double()


def _inputs(number: int = 2) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(GLOBAL_BATCH, 5, generator=generator, dtype=torch.float64)
    return [x] + [x + 0.2 * torch.randn(x.shape, generator=generator, dtype=torch.float64) for _ in range(number - 1)]


class Trained(NamedTuple):
    """Terms and gradients of the last of some steps of gradient descent, and the weights after it."""

    terms: dict[str, Tensor]
    gradients: list[Tensor]
    weights: list[Tensor]


def _train(objective: RadialVICRegLoss, network: nn.Module, views: list[Tensor]) -> Trained:
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        objective(*network(torch.cat(views)).chunk(len(views))).backward()
        optimizer.step()
    parameters = list(network.parameters())
    return Trained(objective.terms, [p.grad.clone() for p in parameters], [p.detach().clone() for p in parameters])


def _message(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return "no error"


def _refusals(rank: int) -> dict[str, str]:
    """What each rank is told when something is wrong on rank 1 alone, or between the ranks."""
    objective = RadialVICRegLoss()
    good = torch.arange(12.0).reshape(4, 3).sin()
    with_nan = good.clone()
    with_nan[0, 0] = torch.nan
    return {
        "unequal": _message(lambda: objective(good[: 4 - min(rank, 1)], good[: 4 - min(rank, 1)])),
        "nan": _message(lambda: objective(good, with_nan if rank == 1 else good)),
        "views": _message(lambda: objective(*[good] * (2 + rank))),
        "one_view": _message(lambda: objective(good, good) if rank == 0 else objective(good)),
        "one_sample": _message(lambda: objective(good, good) if rank == 0 else objective(good[:1], good[:1])),
        "afterwards": _message(lambda: objective(good, good)),
    }


def _collectives(rank: int) -> dict[str, Any]:
    torch.manual_seed(100 + rank)  # global generators that differ between ranks
    z = torch.arange(40.0, dtype=torch.float64).reshape(10, 4).sin()
    local = RadialVICRegLoss(gather_distributed=False, radial_objective="none")
    gathering = RadialVICRegLoss()
    gathering(z, z + 0.1)
    kl = float(gathering.terms["radial_kl"]) if rank == 0 else None  # if it took a collective, the next would not match
    local_value = local(z[: 5 + rank], z[: 5 + rank] + 0.1)  # unequal sizes are fine without a gather
    return {
        "kl_of_rank_0": kl,
        "wasserstein": radial_wasserstein_loss(z),
        "reverse_kl": radial_reverse_kl_loss(z),
        "local": local_value,
        "any_rank": (distributed.any_rank(rank == 1), distributed.any_rank(False)),
        **_shared(rank),
    }


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


def _views(count: int, dim: int, number: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    return [z, *(z + 0.2 * torch.randn(z.shape, generator=generator, dtype=torch.float64) for _ in range(number - 1))]


def _sent(rank: int, world: int) -> list[dict[str, Any]]:
    """What the passes of each case of ``SENT`` send, and the gradients."""
    seen = []
    for dim, center, number in SENT:
        whole = _views(world * PER_RANK, dim(world), number)
        views = [z.split(PER_RANK)[rank].clone().requires_grad_() for z in whole]
        with _Counter() as forward:
            loss = RadialVICRegLoss(radial_center=center, mean_loss_weight=3.0)(*views)
        with _Counter() as backward:
            loss.backward()
        gradients = [z.grad for z in views]
        seen.append({"forward": forward.sent, "backward": backward.sent, "gradients": gradients})
    return seen


ROWS = torch.arange(22.0).reshape(11, 2)
CHUNK = 3  # four chunks, the last of two rows: ranks have unequal numbers of rows


def _shared(rank: int) -> dict[str, Any]:
    """What ranks put together that they have computed in shares, and what the first computes for all."""
    world, called = distributed.world_size(), []
    chunks = ROWS.split(CHUNK)[rank::world]
    only_first = ROWS[:CHUNK] if rank == 0 else torch.empty(0, 0)

    def fail() -> None:
        called.append(rank)
        raise ValueError("not finite")

    def answer() -> int:
        called.append(rank)
        return 42 + rank

    return {
        "chunks": distributed.gather_chunks(torch.cat(chunks), CHUNK),
        "one_chunk": distributed.gather_chunks(only_first, CHUNK),
        "once": distributed.once(answer),
        "once_refused": _message(lambda: distributed.once(fail)),
        "called": called,
    }


def _worker(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=TIMEOUT)
    per_rank = GLOBAL_BATCH // world
    own = slice(rank * per_rank, (rank + 1) * per_rank)
    seen: dict[str, Any] = {"steps": {}}
    for objective, dimension, number in CASES:
        network = DistributedDataParallel(_network(DIMENSIONS[dimension]))
        trained = _train(RadialVICRegLoss(**OBJECTIVES[objective]), network, [x[own] for x in _inputs(number)])
        seen["steps"][objective, dimension, number] = tuple(trained)
    seen["collectives"] = _collectives(rank)
    seen["refusals"] = _refusals(rank)
    seen["sent"] = _sent(rank, world)
    torch.save(seen, f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)], ids="{}_processes".format)
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What every rank saw."""
    world, folder = request.param, tmp_path_factory.mktemp("ranks")
    # A server that has imported PyTorch, this module, and what DistributedDataParallel imports forks the workers: each
    # would take seconds for it otherwise.
    multiprocessing.set_forkserver_preload([__name__, "torch._dynamo"])
    mp.start_processes(_worker, args=(world, str(folder)), nprocs=world, start_method="forkserver")
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(world)]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_terms_gradients_and_weights_equal_those_of_one_process(objective: str, ranks: list[dict[str, Any]]) -> None:
    # Logarithms of the spacings between neighbours amplify the rounding of nearly equal radii.
    near = 100 if OBJECTIVES[objective].get("radial_spacing") == 1 else 1
    for _, dimension, number in (case for case in CASES if case[0] == objective):
        expected = _train(RadialVICRegLoss(**OBJECTIVES[objective]), _network(DIMENSIONS[dimension]), _inputs(number))
        seen = [Trained(*rank["steps"][objective, dimension, number]) for rank in ranks]
        for name, value in expected.terms.items():
            mean = torch.stack([rank.terms[name] for rank in seen]).mean()
            torch.testing.assert_close(
                mean, value, rtol=1e-9 * near, atol=1e-11 * near, msg=lambda m, n=name: f"{n}: {m}"
            )
        # One scale for all: when only centred values matter, the last bias has no gradient but rounding.
        scale = max(gradient.abs().max().item() for gradient in expected.gradients)
        for rank in seen:
            for found, gradient in zip(rank.gradients, expected.gradients, strict=True):
                torch.testing.assert_close(found, gradient, rtol=1e-8 * near, atol=1e-9 * scale * near)
            for found, weight in zip(rank.weights, expected.weights, strict=True):
                torch.testing.assert_close(found, weight, rtol=1e-9 * near, atol=1e-11 * near)


def test_many_samples_send_second_moments_and_few_send_embeddings(ranks: list[dict[str, Any]]) -> None:
    world = len(ranks)
    for place, (dimension, center, number) in enumerate(SENT):
        dim, found = dimension(world), ranks[0]["sent"][place]
        if dim < world * PER_RANK:  # sums; second moments and radii
            sent = {"all_reduce": [number * dim, number * (dim * dim + world * PER_RANK)], "all_gather": []}
        else:  # embeddings; squared norms of the Gram matrices and radii
            sent = {"all_gather": [number * PER_RANK * dim, number * (1 + PER_RANK)]}
        sent["all_gather"].insert(0, 3)  # a batch's shape
        assert found["forward"] == sent
        assert found["backward"] == ({"all_reduce": [number * dim]} if center else {}), "at most a mean"

        views = [z.requires_grad_() for z in _views(world * PER_RANK, dim, number)]
        RadialVICRegLoss(radial_center=center, mean_loss_weight=3.0)(*views).backward()
        for view, z in enumerate(views):
            gradient = torch.cat([rank["sent"][place]["gradients"][view] for rank in ranks]) / world
            torch.testing.assert_close(gradient, z.grad, rtol=1e-9, atol=1e-12)


def test_draws_are_the_same_on_every_rank(ranks: list[dict[str, Any]]) -> None:
    first, *others = ranks
    for other in others:
        for function in ("wasserstein", "reverse_kl"):
            assert torch.equal(first["collectives"][function], other["collectives"][function])
        for case in (case for case in CASES if case[0] == "wasserstein"):
            found = [Trained(*rank["steps"][case]).terms["radial_w1"] for rank in (first, other)]
            assert torch.equal(*found)


def test_statistics_stay_local_without_gathering(ranks: list[dict[str, Any]]) -> None:
    z = torch.arange(40.0, dtype=torch.float64).reshape(10, 4).sin()
    for number, rank in enumerate(ranks):
        alone = RadialVICRegLoss(radial_objective="none")(z[: 5 + number], z[: 5 + number] + 0.1)
        torch.testing.assert_close(rank["collectives"]["local"], alone, rtol=1e-12, atol=0)


def test_one_rank_alone_may_read_the_terms(ranks: list[dict[str, Any]]) -> None:
    z = torch.arange(40.0, dtype=torch.float64).reshape(10, 4).sin()
    whole = RadialVICRegLoss()
    whole(z.repeat(len(ranks), 1), z.repeat(len(ranks), 1) + 0.1)
    assert ranks[0]["collectives"]["kl_of_rank_0"] == pytest.approx(float(whole.terms["radial_kl"]), rel=1e-9)


def test_ranks_put_together_what_they_computed_in_shares_and_the_first_computes_for_all(
    ranks: list[dict[str, Any]],
) -> None:
    for number, rank in enumerate(ranks):
        found = rank["collectives"]
        assert found["any_rank"] == (True, False)
        assert torch.equal(found["chunks"], ROWS)
        assert torch.equal(found["one_chunk"], ROWS[:CHUNK])
        assert found["once"] == 42
        assert found["once_refused"] == "not finite"
        assert found["called"] == ([0, 0] if number == 0 else [])


def test_what_is_wrong_on_one_rank_is_an_error_on_every_rank(ranks: list[dict[str, Any]]) -> None:
    for number, rank in enumerate(ranks):
        told = rank["refusals"]
        assert "(V, N, d) differ between ranks: [(2, 4, 3), (2, 3, 3)" in told["unequal"]
        assert "(V, N, d) differ between ranks: [(2, 4, 3), (3, 4, 3)" in told["views"]
        if number == 0:
            assert "rejected their embeddings" in told["one_view"]
            assert "rejected their embeddings" in told["one_sample"]
        else:
            assert "expected at least 2 views" in told["one_view"]
            assert "at least 2 samples are needed" in told["one_sample"]
        of_rank_1 = "view 2: 1 of 12 values are not finite"
        assert (of_rank_1 if number == 1 else "rank [1] rejected their embeddings") in told["nan"]
        assert told["afterwards"] == "no error", "ranks stay in step"
