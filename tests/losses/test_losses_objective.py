"""RadialVICRegLoss: which terms enter, its draws, what it refuses, how it shows itself."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from objectives import CASES, DRAWING, WEIGHTS, counted_terms
from torch import Tensor

from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import LOGGED, RADIAL_OBJECTIVES, RADIAL_TERMS, TERMS, VICREG

ALWAYS = {*LOGGED, *(term.name for term in TERMS if term.logged)}


def _objective(name: str, **changes: object) -> RadialVICRegLoss:
    return RadialVICRegLoss(**{"radial_objective": name, **WEIGHTS, **changes})  # type: ignore[arg-type]


def _shown(objective: RadialVICRegLoss) -> set[str]:
    return set(re.findall(r"(\w+)=", repr(objective)))


@pytest.mark.parametrize("name", CASES)
def test_terms_are_those_declared_and_the_repr_shows_what_they_read(name: str, views: tuple[Tensor, Tensor]) -> None:
    objective = RadialVICRegLoss(**CASES[name])
    total, terms = objective(views[0].clone().requires_grad_(), views[1]).detach(), objective.terms
    counted = counted_terms(objective)
    assert set(terms) == ALWAYS | {term.name for term in counted}
    assert terms["loss"] == total
    for key, kinds in {"vicreg_loss": VICREG, "radial_loss": RADIAL_TERMS}.items():
        summands = [term for term in counted if term in kinds]
        found = sum(term.sign * getattr(objective, term.weight.name) * terms[term.name] for term in summands)
        torch.testing.assert_close(terms[key], torch.as_tensor(found, dtype=total.dtype), rtol=1e-13, atol=0)
    for key, term in terms.items():
        assert term.shape == (), key
        assert not term.requires_grad, key
        assert f"``{key}``" in (RadialVICRegLoss.__doc__ or ""), key
    read = {"radial_objective", *(key.name for term in counted for key in (term.weight, *term.reads))}
    read |= {"radial_center"} if objective.radial_objective != "none" or objective.radial_center else set()
    read |= {"seed"} if objective.draws_samples else set()
    assert _shown(objective) == read, "its repr shows what it reads and nothing else"


@pytest.mark.parametrize("name", DRAWING)
def test_draws_change_with_the_call_and_the_seed_and_leave_the_global_generator_alone(
    name: str, views: tuple[Tensor, Tensor]
) -> None:
    first, again, other = (RadialVICRegLoss(**CASES[name], seed=seed) for seed in (0, 0, 1))
    torch.manual_seed(0)
    state = torch.get_rng_state()
    values = [first(*views) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert [again(*views) for _ in range(2)] == values
    assert values[0] != values[1]
    assert other(*views) != values[0]


def test_validation_does_not_move_the_training_draws(views: tuple[Tensor, Tensor]) -> None:
    with_validation, without = _objective("wasserstein"), _objective("wasserstein")
    with_validation(*views), without(*views)
    with_validation.eval()
    assert with_validation(*views) == with_validation(*views)
    with_validation.train()
    assert with_validation(*views) == without(*views)


@pytest.mark.parametrize("name", ["kl, centred", "wasserstein", "kl and all that is added"])
def test_terms_read_late_are_those_of_the_last_call(name: str, views: tuple[Tensor, Tensor]) -> None:
    late, at_once = RadialVICRegLoss(**CASES[name]), RadialVICRegLoss(**CASES[name])
    for scale in (1.0, 3.0):
        scaled = [scale * view for view in views]
        late(*scaled), at_once(*scaled)
        expected = dict(at_once.terms)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = dict(late.terms)
    assert first == expected == late.terms


def test_a_refused_batch_leaves_the_terms_of_the_last_call(views: tuple[Tensor, Tensor]) -> None:
    objective = _objective("kl")
    objective(views[0].clone().requires_grad_(), views[1])
    expected = dict(copy.deepcopy(objective).terms)
    with pytest.raises(ValueError, match="not finite"):
        objective(views[0], views[1] * torch.inf)
    assert objective.terms == expected


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(64, 16), (16, 64)], ids=["tall", "wide"])
@pytest.mark.parametrize("name", RADIAL_OBJECTIVES)
def test_a_step_does_not_wait_for_the_gpu(name: str, shape: tuple[int, int]) -> None:
    objective = _objective(name, radial_center=True)
    z1, z2 = (torch.randn(shape, device="cuda", requires_grad=True) for _ in range(2))
    objective(z1, z2).backward()  # the first call moves the quantiles there
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        objective(z1, z2).backward()
    finally:
        torch.cuda.set_sync_debug_mode(mode)


@pytest.mark.gpu
@pytest.mark.parametrize("name", RADIAL_OBJECTIVES)
def test_gpu_and_cpu_agree(name: str, views: tuple[Tensor, Tensor]) -> None:
    on_cpu, on_gpu = _objective(name), _objective(name)
    torch.testing.assert_close(on_gpu(*(z.cuda() for z in views)).cpu(), on_cpu(*views), rtol=1e-10, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape"), [*zip(RADIAL_OBJECTIVES, [(32, 12), (12, 32)] * len(RADIAL_OBJECTIVES), strict=False)]
)
def test_compiled_the_objective_is_the_same_and_finite_on_degenerate_batches(name: str, shape: tuple[int, int]) -> None:
    from torch._dynamo.utils import counters  # takes seconds

    torch.compiler.reset()
    # The default weights: `1 * x` and `x + 0` are what a compiler drops, here once with the gradient.
    eager = RadialVICRegLoss(radial_objective=name)
    compiled = torch.compile(RadialVICRegLoss(radial_objective=name), fullgraph=not eager.draws_samples)
    for call in range(4):
        z1 = torch.randn(shape, requires_grad=True)
        z2 = (z1 + 0.3 * torch.randn(shape)).detach().requires_grad_()
        expected = eager(z1, z2)
        gradients = torch.autograd.grad(expected, (z1, z2))
        counters["stats"].clear()
        found = compiled(z1, z2)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(torch.autograd.grad(found, (z1, z2)), gradients, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(compiled.terms, eager.terms, rtol=1e-4, atol=1e-5)
        assert (counters["stats"]["unique_graphs"] > 0) == (call == 0), "compiled once, for the first call"

    tied = 3 * z1 / z1.norm(dim=1, keepdim=True)
    for z in (tied, z1[:1].expand(shape), torch.zeros(shape)):
        pair = [z.detach().clone().requires_grad_() for _ in range(2)]
        found = compiled(*pair)
        torch.testing.assert_close(found, eager(*pair), rtol=1e-4, atol=1e-5)
        assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(found, pair))


def test_repr_shows_what_differs_from_the_defaults_and_builds_the_same_loss() -> None:
    for name, value in {
        "radial_spacing": 5,
        "radial_w1_loss_weight": 2.0,
        "seed": 7,
        "gather_distributed": False,
    }.items():
        objective = RadialVICRegLoss(**{name: value})  # type: ignore[arg-type]
        assert f"{name}={value!r}" in repr(objective)
        assert _shown(objective) - _shown(RadialVICRegLoss()) <= {name}
    objective = _objective("wasserstein", radial_center=True, seed=3, sim_loss_weight=0.1 + 0.2)
    assert repr(eval(repr(objective), {"RadialVICRegLoss": RadialVICRegLoss})) == repr(objective)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        *(("cov_loss_weight", value, "expected a finite number >= 0, got") for value in (-1, torch.nan, "1e-3", True)),
        ("radial_ce_normalize", "false", r"expected true or false, got 'false' \(str\)"),
        ("radial_center", 1, "expected true or false, got 1"),
        ("gather_distributed", None, "expected true or false, got None"),
        ("radial_spacing", 2.5, "expected an integer >= 1, got 2.5"),
        ("seed", -1, "expected an integer >= 0, got -1"),
    ],
)
def test_wrong_settings_are_refused_by_name(key: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{key}: {message}"):
        RadialVICRegLoss(**{key: value})  # type: ignore[arg-type]


def test_spacing_beyond_the_batch_is_refused(views: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(ValueError, match=r"m: expected an integer within 1\.\.11 for 12 samples, got 12"):
        RadialVICRegLoss(radial_spacing=12)(*views)
