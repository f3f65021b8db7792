"""RadialVICRegLoss: which terms enter, that they add up, what it refuses, how it shows itself."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from objectives import CASES, DRAWING, WEIGHTS, counted_terms
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.terms import LOGGED, RADIAL_OBJECTIVES, RADIAL_TERMS, TERMS, VICREG

WEIGHT_KEYS = [term.weight.name for term in TERMS]
ALWAYS = {*LOGGED, *(term.name for term in TERMS if term.logged)}


def _objective(name: str, **changes: object) -> RadialVICRegLoss:
    return RadialVICRegLoss(**{"radial_objective": name, **WEIGHTS, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_weighted_terms_add_up_to_the_total_and_are_those_declared(name: str, views: tuple[Tensor, Tensor]) -> None:
    objective = RadialVICRegLoss(**CASES[name])
    total, terms = objective(views[0].clone().requires_grad_(), views[1]).detach(), objective.terms
    counted = counted_terms(objective)
    parts = {
        "vicreg_loss": [term for term in counted if term in VICREG],
        "radial_loss": [term for term in counted if term in RADIAL_TERMS],
        "loss": counted,
    }
    assert terms["loss"] == total
    for key, summands in parts.items():
        found = sum(term.sign * getattr(objective, term.weight.name) * terms[term.name] for term in summands)
        torch.testing.assert_close(terms[key], torch.as_tensor(found, dtype=total.dtype), rtol=1e-13, atol=0)
    assert set(terms) == ALWAYS | {term.name for term in counted}
    for key, term in terms.items():
        assert term.shape == (), key
        assert not term.requires_grad, key
        assert f"``{key}``" in (RadialVICRegLoss.__doc__ or ""), key
    read = {"radial_objective", *(key.name for term in counted for key in (term.weight, *term.reads))}
    read |= {"radial_center"} if objective.radial_objective != "none" or objective.radial_center else set()
    read |= {"seed"} if objective.draws_samples else set()
    assert _shown(objective) == read, "its repr shows what it reads and nothing else"


def test_e2mc_is_left_out_at_weight_zero(views: tuple[Tensor, Tensor]) -> None:
    objective = RadialVICRegLoss()
    objective(*views)
    assert set(objective.terms) == ALWAYS


def test_centring_moves_the_radial_terms_only(views: tuple[Tensor, Tensor]) -> None:
    shifted = tuple(z + 3 for z in views)
    plain, centred = RadialVICRegLoss(), RadialVICRegLoss(radial_center=True)
    plain(*(z - z.mean(dim=0) for z in views))
    centred(*shifted)
    for key in ("radial_ce", "radial_kl", "w1_chi", "radius_mean", "vicreg_variance", "vicreg_covariance"):
        torch.testing.assert_close(centred.terms[key], plain.terms[key], rtol=1e-9, atol=1e-12)
    assert centred.terms["embedding_mean_norm"] > 5
    plain(*shifted)
    for key in ("mean_loss", "embedding_mean_share", "embedding_trace"):
        torch.testing.assert_close(centred.terms[key], plain.terms[key], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (2, 1)], ids=["N > d", "N < d", "d = 1"])
def test_energy_is_that_of_the_covariance_and_of_the_mean(shape: tuple[int, int]) -> None:
    """E|z|^2 = (N - 1) / N tr C + |m|^2, by which ``mean_loss`` and the trace are logged."""
    count, dim = shape
    z = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.3
    objective = RadialVICRegLoss()
    objective(z, z)
    trace, mean = objective.terms["embedding_trace"] * max(1, dim - 1), objective.terms["mean_loss"] / 2 * dim
    torch.testing.assert_close((count - 1) / count * trace + mean, z.square().sum(dim=1).mean(), rtol=1e-12, atol=0)


def test_share_and_trace_of_collapsed_embeddings_are_finite() -> None:
    objective = RadialVICRegLoss()
    objective(torch.zeros(4, 3), torch.zeros(4, 3))
    assert objective.terms["embedding_mean_share"] == 0
    assert objective.terms["embedding_trace"] < 1e-20
    objective(torch.ones(4, 3), torch.ones(4, 3))
    assert objective.terms["embedding_mean_share"] == 1
    assert objective.terms["embedding_trace"] == 0


def test_the_mean_is_free_at_weight_zero(views: tuple[Tensor, Tensor]) -> None:
    """Without its weight an offset has no gradient in VICReg, and the loss no term more."""
    gradients = []
    for weight in (0.0, 25.0):
        z = (views[0] + 3).requires_grad_()
        RadialVICRegLoss(radial_objective="none", sim_loss_weight=0.0, mean_loss_weight=weight)(z, z).backward()
        assert z.grad is not None
        gradients.append(z.grad.sum(dim=0))
    torch.testing.assert_close(gradients[0], torch.zeros_like(gradients[0]), rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients[1], 4 * 25 * (views[0] + 3).mean(dim=0) / views[0].shape[1])


def test_entropy_at_weight_zero_does_not_move_the_gradient(views: tuple[Tensor, Tensor]) -> None:
    gradients = []
    for spacing in (1, 5):
        z = views[0].clone().requires_grad_()
        RadialVICRegLoss(radial_ent_loss_weight=0.0, radial_spacing=spacing)(z, views[1]).backward()
        gradients.append(z.grad)
    assert torch.equal(*gradients)


@pytest.mark.parametrize("name", DRAWING)
def test_draws_change_with_the_call_and_the_seed_and_not_with_the_global_seed(
    name: str, views: tuple[Tensor, Tensor]
) -> None:
    first, again, other = (RadialVICRegLoss(**CASES[name], seed=seed) for seed in (0, 0, 1))
    torch.manual_seed(0)
    values = [first(*views) for _ in range(2)]
    torch.manual_seed(1)
    assert [again(*views) for _ in range(2)] == values
    assert values[0] != values[1]
    assert other(*views) != values[0]


def test_using_the_objective_leaves_the_global_generator_alone(views: tuple[Tensor, Tensor]) -> None:
    state = torch.get_rng_state()
    _objective("wasserstein")(*views)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_two_views_get_draws_of_their_own(views: tuple[Tensor, Tensor]) -> None:
    z = views[0]
    objective = _objective("wasserstein").eval()
    objective(z, z)
    first, second = (losses.radial_wasserstein_loss(z, draws) for draws in objective._draws(len(z), (z, z)).unbind(1))
    assert first != second
    torch.testing.assert_close(objective.terms["radial_w1"], first + second, rtol=1e-14, atol=0)


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
    objective(*views)
    expected = dict(copy.deepcopy(objective).terms)
    with pytest.raises(ValueError, match="not finite"):
        objective(views[0], views[1] * torch.inf)
    assert objective.terms == expected


def test_objective_can_be_copied_after_a_call(views: tuple[Tensor, Tensor]) -> None:
    objective = _objective("kl")
    objective(views[0].clone().requires_grad_(), views[1])
    assert copy.deepcopy(objective).terms.keys() == objective.terms.keys()


def _shown(objective: RadialVICRegLoss) -> set[str]:
    return set(re.findall(r"(\w+)=", repr(objective)))


@pytest.mark.parametrize(
    "changed",
    [
        {"radial_spacing": 5},
        {"radial_w1_loss_weight": 2.0},
        {"radial_center": True},
        {"e2mc_loss_weight": 1e-7},
        {"mean_loss_weight": 1e-7},
        {"var_loss_weight": 0.0},
        {"seed": 7},
        {"gather_distributed": False},
    ],
    ids=str,
)
def test_repr_shows_what_differs_from_the_defaults(changed: dict[str, object]) -> None:
    objective = RadialVICRegLoss(**changed)  # type: ignore[arg-type]
    ((name, value),) = changed.items()
    assert f"{name}={value!r}" in repr(objective)
    assert _shown(objective) - _shown(RadialVICRegLoss()) <= {name}


def test_repr_shows_the_spacing_and_the_seed_only_where_they_matter() -> None:
    assert "radial_spacing" in _shown(RadialVICRegLoss(radial_ent_loss_weight=0.5))
    quantiles = RadialVICRegLoss(radial_objective="wasserstein", radial_w1_target="quantiles")
    assert "seed" not in _shown(quantiles)


def test_repr_builds_the_same_loss() -> None:
    objective = _objective("wasserstein", radial_center=True, seed=3, sim_loss_weight=0.1 + 0.2)
    assert repr(eval(repr(objective), {"RadialVICRegLoss": RadialVICRegLoss})) == repr(objective)


@pytest.mark.parametrize("name", WEIGHT_KEYS)
def test_wrong_weights_are_refused_by_name(name: str) -> None:
    for value in (-1, float("nan"), float("inf"), "1e-3", None, True):
        with pytest.raises(ValueError, match=rf"^{name}: expected a finite number >= 0, got"):
            RadialVICRegLoss(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("radial_objective", "w1", f"expected one of {', '.join(RADIAL_OBJECTIVES)}, got 'w1'"),
        ("radial_w1_target", "exact", "expected one of samples, quantiles, got 'exact'"),
        ("radial_ce_normalize", "false", r"expected true or false, got 'false' \(str\)"),
        ("radial_center", 1, "expected true or false, got 1"),
        ("gather_distributed", None, "expected true or false, got None"),
        ("radial_spacing", 0, "expected an integer >= 1, got 0"),
        ("radial_spacing", 2.5, "expected an integer >= 1, got 2.5"),
        ("seed", -1, "expected an integer >= 0, got -1"),
    ],
)
def test_wrong_settings_are_refused_by_name(key: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"{key}: {message}"):
        RadialVICRegLoss(**{key: value})  # type: ignore[arg-type]


def test_spacing_beyond_the_batch_is_refused(views: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(ValueError, match=r"m: expected an integer within 1\.\.11 for 12 samples, got 12"):
        RadialVICRegLoss(radial_spacing=12)(*views)
