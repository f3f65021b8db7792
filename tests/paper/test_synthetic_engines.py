from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from radial_vicreg.paper.synthetic import ordering
from radial_vicreg.paper.synthetic.distributions import sample
from radial_vicreg.paper.synthetic.engine_cpu import CpuEngine
from radial_vicreg.paper.synthetic.engine_torch import TorchEngine
from radial_vicreg.paper.synthetic.gradient import gradient, stack_weights, total_loss
from radial_vicreg.paper.synthetic.rates import learning_rates
from radial_vicreg.paper.synthetic.settings import OBJECTIVES, Objective

WEIGHTS = {"lambda2": 3.0, "lambda3": 2.0, "beta1": 0.7, "beta2": 1.3, "gamma": 1.7}


def autograd_gradient(points: np.ndarray, objective: Objective) -> torch.Tensor:
    z = torch.tensor(points, requires_grad=True)
    (result,) = torch.autograd.grad(total_loss(z, objective), z)
    return result


def analytic_gradient(points: np.ndarray, objective: Objective) -> torch.Tensor:
    z = torch.tensor(points)[None]
    return gradient(z, objective.objective, stack_weights([objective], z), objective.spacing(len(points)))[0]


def first_step(points: np.ndarray, objective: Objective) -> torch.Tensor:
    """The gradient that the numba kernels use, read off a step of rate 1 (no digits are lost to a small rate)."""
    engine = CpuEngine(points, objective)
    engine.advance(np.ones(1))
    return torch.from_numpy(points - engine.points)


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@settings(derandomize=True)
@given(
    kind=st.sampled_from(OBJECTIVES),
    name=st.sampled_from(["x", "student_t", "mixture", "ball"]),
    count=st.integers(5, 200),
    dim=st.sampled_from([1, 2, 3, 7]),
    scale=st.floats(0.3, 3.0),
    shift=st.floats(-1.0, 1.0),
    seed=st.integers(0, 10_000),
    spacing=st.floats(0, 1, exclude_max=True) | st.none(),
)
def test_both_gradients_equal_autograd_of_the_losses(
    kind: str, name: str, count: int, dim: int, scale: float, shift: float, seed: int, spacing: float | None
) -> None:
    points = scale * sample(name, count, dim, alpha=0.5, seed=seed) + shift
    m = None if spacing is None else 1 + int(spacing * (count - 1))
    objective = Objective(kind, m=m, **WEIGHTS)
    expected = autograd_gradient(points, objective)
    assert relative_error(analytic_gradient(points, objective), expected) < 1e-10
    assert relative_error(first_step(points, objective), expected) < 1e-10


@settings(derandomize=True)
@given(kind=st.sampled_from(OBJECTIVES), dim=st.sampled_from([1, 2, 3]))
def test_degenerate_points_have_the_gradient_of_the_losses(kind: str, dim: int) -> None:
    """Points at zero, tied points and a collapsed axis: clamped terms give no gradient, as in the losses."""
    points = sample("gaussian", 40, dim, seed=1)
    points[:5] = 0.0
    points[5:20] = points[5]
    objective = Objective(kind, m=3, **WEIGHTS)
    expected = autograd_gradient(points, objective)
    for found in (analytic_gradient(points, objective), first_step(points, objective)):
        assert torch.isfinite(found).all()
        if kind in ("reverse_kl", "kl", "wasserstein"):
            # Which of several tied points carries a spacing is arbitrary: compare what all of them get together.
            torch.testing.assert_close(found[5:20].sum(0), expected[5:20].sum(0), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(found[20:], expected[20:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kind", "dim"), [("kl", 4), ("wasserstein", 1), ("e2mc", 2), ("reverse_kl", 2)])
def test_engines_agree_over_a_thousand_steps(kind: str, dim: int) -> None:
    count = 60 if kind == "reverse_kl" else 300
    starts = np.stack([0.9 * sample("mixture", count, dim, alpha=0.5, seed=seed) + 0.1 for seed in range(2)])
    objectives = [Objective(kind, **WEIGHTS), Objective(kind)]
    rates = learning_rates(1000, 2e-5 * count)
    batched = TorchEngine(starts, objectives)
    batched.advance(np.stack([rates, 0.5 * rates], axis=1))
    for place, factor in enumerate((1.0, 0.5)):
        single = CpuEngine(starts[place], objectives[place])
        single.advance(factor * rates)
        assert np.abs(single.points - starts[place]).max() > 0.01
        np.testing.assert_allclose(single.points, batched.points[place], atol=1e-11)


@pytest.mark.parametrize("weights", [{"beta2": 10.0}, {"beta1": 0.0, "beta2": 0.0}])
def test_a_run_does_not_depend_on_how_it_is_cut_into_chunks(weights: dict[str, float]) -> None:
    start, rates = sample("mixture", 500, alpha=0.5, seed=0), np.full(300, 0.3)
    whole, parts = CpuEngine(start, Objective(**weights)), CpuEngine(start, Objective(**weights))
    whole.advance(rates)
    for part in np.split(rates, [1, 50, 51, 299]):
        parts.advance(part)
        assert not np.array_equal(parts.points, start)
    # Bit for bit: at beta2 = 10 this rate is past stability, and any rounding would grow.
    np.testing.assert_array_equal(parts.points, whole.points)
    assert parts.step == whole.step == 300


def test_divergence_is_recorded_with_its_step_alike_and_spares_the_other_runs() -> None:
    starts = np.stack([sample("gaussian", 100, seed=seed) for seed in range(2)])
    objectives = [Objective(beta2=0.0)] * 2
    rates = np.stack([np.full(50, 1e3), np.full(50, 0.1)], axis=1)
    batched = TorchEngine(starts, objectives)
    batched.advance(rates)
    singles = [CpuEngine(start, objective) for start, objective in zip(starts, objectives, strict=True)]
    for place, engine in enumerate(singles):
        engine.advance(rates[:, place])
    assert singles[0].diverged_at is not None
    assert batched.diverged_at == [singles[0].diverged_at, None]
    assert singles[1].diverged_at is None
    np.testing.assert_allclose(singles[1].points, batched.points[1], atol=1e-11)
    before = singles[0].step
    singles[0].advance(np.ones(5))
    assert singles[0].step == before
    assert np.isfinite(batched.points).all()


@settings(derandomize=True)
@given(
    values=st.lists(st.floats(0, 1e6) | st.sampled_from([0.0, 1.0, 1.0 + 1e-15, 2.0]), min_size=1, max_size=200),
    presorted=st.booleans(),
)
def test_every_way_of_ordering_sorts_and_carries_the_points_along(values: list[float], presorted: bool) -> None:
    radius = np.array(sorted(values) if presorted else values)
    original = radius.copy()
    for sort in (ordering.repair_order, ordering.order_by_radius):
        keys, z, order = original.copy(), np.stack([original, -original]), np.arange(len(original))
        sort(keys, z, order)
        np.testing.assert_array_equal(keys, np.sort(original))
        np.testing.assert_array_equal(original[order], keys)
        np.testing.assert_array_equal(z, [keys, -keys])


def test_a_cloud_on_a_circle_is_sorted_too() -> None:
    radius = 1 + 1e-12 * np.random.default_rng(0).random(5000)
    keys = radius.copy()
    ordering.order_by_radius(keys, radius[None].copy(), np.arange(5000))
    np.testing.assert_array_equal(keys, np.sort(radius))


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_rates_warm_up_and_end_at_the_final_rate(schedule: str) -> None:
    rates = learning_rates(1000, 0.5, schedule=schedule)
    np.testing.assert_allclose(rates[:100], 0.5 * np.arange(1, 101) / 100)
    assert rates[100] == 0.5
    assert rates[-1] == pytest.approx(0.5 if schedule == "constant" else 1e-6)
    assert (np.diff(rates[100:]) <= 0).all()
    assert len(rates) == 1000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CpuEngine(np.zeros(5), Objective()), r"shape \(N, d\) with N >= 2, got \(5,\)"),
        (lambda: CpuEngine(np.full((4, 2), np.nan), Objective()), "got 8 infinite or NaN values"),
        (lambda: TorchEngine(np.ones((2, 4, 2)), [Objective()]), "one objective per run"),
        (lambda: TorchEngine(np.ones((2, 4, 2)), [Objective(m=1), Objective(m=2)]), "share kind and m"),
    ],
)
def test_wrong_settings_are_named(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", OBJECTIVES)
def test_the_captured_graph_makes_the_same_steps_as_the_cpu(kind: str) -> None:
    starts = np.stack([sample("mixture", 200, alpha=0.5, seed=seed) for seed in range(3)])
    rates = np.repeat(learning_rates(1200, 0.005)[:, None], 3, axis=1)
    ends = []
    for device in ("cpu", "cuda"):
        engine = TorchEngine(starts, [Objective(kind)] * 3, device)
        engine.advance(rates)
        ends.append(engine.points)
    assert engine._graph is not None
    np.testing.assert_allclose(*ends, atol=1e-9)
