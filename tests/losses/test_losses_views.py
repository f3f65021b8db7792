"""Any number of views: what each term is, the gradient, how views are passed, what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss

Views = tuple[Tensor, ...]

#: Every objective with weights that nothing else has, so that no term can stand for another.
SETTINGS: dict[str, dict[str, Any]] = {
    "kl": {"radial_ce_loss_weight": 2.0, "radial_ent_loss_weight": 0.3},
    "wasserstein": {"radial_objective": "wasserstein", "radial_w1_loss_weight": 1.5},
    "quantiles": {"radial_objective": "wasserstein", "radial_w1_target": "quantiles"},
    "reverse_kl": {"radial_objective": "reverse_kl", "radial_reverse_kl_loss_weight": 0.7},
    "none": {"radial_objective": "none", "sim_loss_weight": 3.0},
    "e2mc": {"radial_objective": "none", "e2mc_loss_weight": 0.4},
    "mean": {"radial_ce_loss_weight": 2.0, "mean_loss_weight": 0.6},
}
objectives = pytest.mark.parametrize("name", SETTINGS)
numbers = pytest.mark.parametrize("number", [2, 3, 4, 8], ids="{}_views".format)
shapes = pytest.mark.parametrize("shape", [(12, 5), (5, 12)], ids=["N > d", "N < d"])
centred = pytest.mark.parametrize("center", [False, True], ids=["plain", "centred"])


def _views(number: int, shape: tuple[int, int] = (12, 5), dtype: torch.dtype = torch.float64) -> Views:
    generator = torch.Generator().manual_seed(number)
    image = torch.randn(shape, generator=generator, dtype=torch.float64)
    noise = torch.randn(number, *shape, generator=generator, dtype=torch.float64)
    return tuple((0.8 * (image + 0.4 * each) + 0.2).to(dtype).requires_grad_() for each in noise)


def _two_means(function: Callable[..., Tensor], *columns: Any) -> Tensor:
    values = [function(*row) for row in zip(*columns, strict=True)]
    return 2 * torch.stack(values).mean()


def _plain_terms(objective: RadialVICRegLoss, views: Views, center: bool) -> dict[str, Tensor]:
    """The definition of every term that may enter the loss, by the functions of one view and of one pair."""
    pairs = [losses.invariance_loss(first, second) for first, second in itertools.combinations(views, 2)]
    seen = [z - z.mean(dim=0) for z in views] if center else views
    terms = {
        "vicreg_invariance": torch.stack(pairs).mean(),
        "vicreg_variance": _two_means(losses.variance_loss, views),
        "vicreg_covariance": _two_means(losses.covariance_loss, views),
        "radial_ce": _two_means(lambda z: losses.chi_cross_entropy(z, normalize=True), seen),
        "radial_entropy": _two_means(lambda z: losses.m_spacing_entropy(z.norm(dim=1)), seen),
    }
    if objective.mean_loss_weight:
        terms["mean_loss"] = _two_means(losses.mean_loss, views)
    if objective.radial_objective == "wasserstein":
        targets = ["quantiles"] * len(views)
        if objective.draws_samples:
            targets = objective._draws(len(views[0]), views).unbind(1)
        terms["radial_w1"] = _two_means(losses.radial_wasserstein_loss, seen, targets)
    if objective.radial_objective == "reverse_kl":
        draws = objective._draws(512, views).unbind(1)
        radii = [z.norm(dim=1) for z in seen]
        terms["radial_reverse_kl"] = _two_means(losses.radial.reverse_kl_of, radii, draws)
    if objective.e2mc_loss_weight:
        terms["e2mc"] = _two_means(losses.e2mc_loss, views)
    return terms


def _plain_loss(objective: RadialVICRegLoss, views: Views, center: bool) -> Tensor:
    terms = _plain_terms(objective, views, center)
    weights = {
        "vicreg_invariance": objective.sim_loss_weight,
        "vicreg_variance": objective.var_loss_weight,
        "vicreg_covariance": objective.cov_loss_weight,
        "radial_w1": objective.radial_w1_loss_weight,
        "radial_reverse_kl": objective.radial_reverse_kl_loss_weight,
        "e2mc": objective.e2mc_loss_weight,
        "mean_loss": objective.mean_loss_weight,
    }
    if objective.radial_objective == "kl":
        weights["radial_ce"] = objective.radial_ce_loss_weight
        weights["radial_entropy"] = -objective.radial_ent_loss_weight
    return torch.stack([weights.get(name, 0.0) * term for name, term in terms.items()]).sum()


@shapes
@centred
@numbers
@objectives
def test_terms_and_gradients_equal_the_definitions(
    name: str, number: int, center: bool, shape: tuple[int, int]
) -> None:
    views = _views(number, shape)
    objective = RadialVICRegLoss(radial_center=center, **SETTINGS[name]).eval()  # eval: the draws stand still
    total = objective(*views)
    expected = _plain_loss(objective, views, center)
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-12)
    gradients = torch.autograd.grad(total, views)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, views), rtol=1e-8, atol=1e-11)
    for term, value in _plain_terms(objective, views, center).items():
        torch.testing.assert_close(objective.terms[term], value.detach(), rtol=1e-9, atol=1e-12)


@shapes
@numbers
def test_second_derivatives_equal_the_definitions(number: int, shape: tuple[int, int]) -> None:
    views = _views(number, shape)
    objective = RadialVICRegLoss(radial_center=True, mean_loss_weight=0.6, **SETTINGS["kl"])
    found, expected = (
        torch.autograd.grad(
            sum((gradient * (1 + gradient)).sum() for gradient in torch.autograd.grad(total, views, create_graph=True)),
            views,
        )
        for total in (objective(*views), _plain_loss(objective, views, center=True))
    )
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-9)


@objectives
def test_derivatives_of_three_views_equal_finite_differences(name: str) -> None:
    objective = RadialVICRegLoss(radial_center=True, **SETTINGS[name]).eval()
    views = _views(3, (5, 3))
    assert torch.autograd.gradcheck(objective, views, eps=1e-7, atol=1e-4, rtol=1e-3)
    assert torch.autograd.gradgradcheck(objective, views, eps=1e-7, atol=1e-4, rtol=1e-3)


@objectives
def test_terms_for_the_log_are_means_over_the_views(name: str) -> None:
    views = _views(3)
    objective = RadialVICRegLoss(**SETTINGS[name])
    objective(*views)
    expected = {
        "radial_kl": losses.radial_kl,
        "w1_chi": lambda z: losses.radial_wasserstein_loss(z, "quantiles"),
        "radius_mean": lambda z: z.norm(dim=1).mean(),
        "radius_std": lambda z: z.norm(dim=1).std(),
        "embedding_mean_norm": lambda z: z.mean(dim=0).norm(),
    }
    for term, function in expected.items():
        value = _two_means(function, views).detach() / 2
        torch.testing.assert_close(objective.terms[term], value, rtol=1e-10, atol=1e-12)


def test_repeated_views_change_the_invariance_alone() -> None:
    views = _views(2)
    once, twice = RadialVICRegLoss(e2mc_loss_weight=1.0), RadialVICRegLoss(e2mc_loss_weight=1.0)
    once(*views)
    twice(*views, *views)
    expected = {name: value for name, value in once.terms.items() if name not in ("loss", "vicreg_loss")}
    expected["vicreg_invariance"] *= 4 / 6  # of six pairs, two are of a view and itself
    torch.testing.assert_close({name: twice.terms[name] for name in expected}, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_small_differences_of_many_views_survive_float32(mean: float) -> None:
    """Differences as sums of squares minus the square of the sum would lose all digits beside a large mean."""
    exact = [(z.detach() * 1e-1 + mean).float() for z in _views(4)]
    objective = RadialVICRegLoss()
    objective(*exact)
    pairs = [losses.invariance_loss(*(z.double() for z in pair)) for pair in itertools.combinations(exact, 2)]
    assert float(objective.terms["vicreg_invariance"]) == pytest.approx(float(torch.stack(pairs).mean()), rel=1e-3)


@numbers
@objectives
def test_one_tensor_of_all_views_is_the_same_bit_for_bit(name: str, number: int) -> None:
    views = _views(number)
    stacked = torch.stack(views).detach().requires_grad_()
    apart, together = RadialVICRegLoss(**SETTINGS[name]), RadialVICRegLoss(**SETTINGS[name])
    first, second = apart(*views), together(stacked)
    assert torch.equal(first, second)
    assert together.terms == apart.terms
    assert torch.equal(torch.autograd.grad(second, stacked)[0], torch.stack(torch.autograd.grad(first, views)))


def test_two_views_may_be_named() -> None:
    z1, z2 = _views(2)
    objective = RadialVICRegLoss()
    assert objective(z1=z1, z2=z2) == objective(z2=z2, z1=z1) == objective(z1, z2)


def test_views_of_different_precision_are_promoted() -> None:
    views = _views(3)
    mixed = (views[0].float(), views[1], views[2].half())
    expected = RadialVICRegLoss()(*(z.double() for z in mixed))
    assert torch.equal(RadialVICRegLoss()(*mixed), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_under_autocast_is_computed_in_float32(dtype: torch.dtype) -> None:
    views = _views(3, (5, 12), dtype)
    objective = RadialVICRegLoss(e2mc_loss_weight=1.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = objective(*views)
    assert value.dtype == torch.float32
    assert torch.equal(value, objective(*(z.float() for z in views)))


@objectives
def test_degenerate_batches_of_three_views_are_finite(name: str, degenerate: Tensor) -> None:
    views = tuple((scale * degenerate).requires_grad_() for scale in (1.0, 0.5, -2.0))
    objective = RadialVICRegLoss(**SETTINGS[name])
    gradients = torch.autograd.grad(objective(*views), views)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert all(bool(term.isfinite()) for term in objective.terms.values()), objective.terms


def test_every_view_has_draws_of_its_own_and_the_first_two_those_of_two_views() -> None:
    objective = RadialVICRegLoss(radial_objective="wasserstein", seed=4).eval()
    views = _views(4)
    draws = objective._draws(6, views)
    assert len({tuple(column) for column in draws.T.tolist()}) == 4
    assert torch.equal(draws[:, :2], objective._draws(6, views[:2]))


@pytest.mark.parametrize("name", ["wasserstein", "reverse_kl"])
def test_a_call_counts_once_however_many_views_it_has(name: str) -> None:
    objective = RadialVICRegLoss(**SETTINGS[name])
    for number in (2, 5, 3):
        objective(*_views(number))
    assert {key: int(value) for key, value in objective.state_dict().items()} == {losses.EXTRA_STATE: 3}


ONE = torch.zeros(4, 3)
TWO_TOGETHER = torch.zeros(2, 4, 3)
FEW = r"^expected at least 2 views, each of shape \(N, d\), or all in one tensor of shape \(V, N, d\), got "


@pytest.mark.parametrize(
    ("views", "keywords", "message"),
    [
        ((), {}, FEW + r"none\.$"),
        ((ONE,), {}, FEW + r"one argument \(shape \(4, 3\)\)\.$"),
        ((ONE[None],), {}, FEW + r"one argument \(shape \(1, 4, 3\)\)\.$"),
        ((TWO_TOGETHER[None],), {}, FEW + r"one argument \(shape \(1, 2, 4, 3\)\)\.$"),
        (([ONE, ONE],), {}, FEW + r"one argument \(list\)\.$"),
        ((TWO_TOGETHER, TWO_TOGETHER), {}, r"^view 1: expected shape \(N, d\), got \(2, 4, 3\); .* alone\.$"),
        ((ONE, TWO_TOGETHER), {}, r"^view 2: expected shape \(N, d\), got \(2, 4, 3\); .* alone\.$"),
        ((ONE,), {"z2": ONE}, "^expected views by position, or z1 and z2 by keyword, got 1 by position and z2 by"),
        ((ONE, ONE), {"z3": ONE}, "got 2 by position and z3 by keyword; pass all of them by position"),
        ((), {"z1": ONE}, "got 0 by position and z1 by keyword"),
        ((), {"z1": ONE, "z2": ONE, "z3": ONE}, "got 0 by position and z1, z2, z3 by keyword"),
        ((), {"z1": ONE, "z2": ONE[:, :2]}, r"^view 1 and view 2 must have one shape .*\(4, 3\) and \(4, 2\)"),
        ((ONE, ONE, ONE[:3]), {}, r"^view 1 and view 3 must have one shape .*\(4, 3\) and \(3, 3\)"),
        ((ONE, ONE, ONE.int()), {}, "^view 3: expected float16, bfloat16, float32 or float64, got torch.int32"),
        ((ONE, ONE, ONE.to("meta")), {}, "^view 3: expected values, got a tensor on the meta device"),
        ((ONE, None, ONE), {}, "^view 2: expected a torch.Tensor"),
        ((ONE, ONE, torch.full((4, 3), torch.nan)), {}, "^view 3: 12 of 12 values are not finite"),
        ((torch.stack((ONE, ONE, ONE / 0)),), {}, "^view 3: 12 of 12 values are not finite"),
        ((TWO_TOGETHER[:, :1],), {}, r"^view 1: at least 2 samples are needed, got shape \(1, 3\)"),
    ],
)
def test_other_arguments_are_refused_in_one_line(views: Views, keywords: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        RadialVICRegLoss()(*views, **keywords)
    assert "\n" not in str(caught.value)
