"""Any number of views: what each term is, the gradient, how views are passed, what is refused."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from objectives import CASES, DEFINITIONS, DRAWING, Batch, batch_of, two_means, weighted_sum
from torch import Tensor

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss

Views = tuple[Tensor, ...]


def _views(number: int, shape: tuple[int, int] = (12, 5)) -> Views:
    generator = torch.Generator().manual_seed(number)
    image = torch.randn(shape, generator=generator, dtype=torch.float64)
    noise = torch.randn(number, *shape, generator=generator, dtype=torch.float64)
    return tuple((0.8 * (image + 0.4 * each) + 0.2).requires_grad_() for each in noise)


@pytest.mark.parametrize("name", CASES)
@settings(derandomize=True, max_examples=6)
@given(number=st.integers(2, 8), shape=st.sampled_from([(12, 5), (5, 12)]), scale=st.floats(0.3, 3.0))
def test_terms_and_gradients_equal_the_definitions(
    name: str, number: int, shape: tuple[int, int], scale: float
) -> None:
    views = tuple((scale * z).detach().requires_grad_() for z in _views(number, shape))
    objective = RadialVICRegLoss(**CASES[name]).eval()  # eval: the draws stand still
    batch = batch_of(objective, views)
    total, expected = objective(*views), weighted_sum(objective, lambda term: DEFINITIONS[term.name](batch))
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-12)
    gradients = torch.autograd.grad(total, views)
    again = torch.autograd.grad(objective(*views), views, create_graph=True)  # by the formulas, to be derived once more
    reference = torch.autograd.grad(expected, views)
    for found in (gradients, again):
        torch.testing.assert_close(found, reference, rtol=1e-8, atol=1e-10)
    values = {term: DEFINITIONS[term](batch) for term in objective.terms.keys() & DEFINITIONS.keys()}
    for term, value in {**values, **_logged(batch)}.items():
        found = objective.terms[term]
        torch.testing.assert_close(found, value.detach(), rtol=1e-9, atol=1e-12, msg=lambda m, t=term: f"{t}: {m}")

    stacked = torch.stack(views).detach().requires_grad_()
    together = objective(stacked)
    assert torch.equal(together, total), "views in one tensor give another value"
    assert torch.equal(torch.autograd.grad(together, stacked)[0], torch.stack(gradients))


def _logged(batch: Batch) -> dict[str, Tensor]:
    """Terms for the log: means over the views."""
    of_the_radii = {
        "radial_kl": lambda z: losses.radial_kl(z, batch.loss.radial_spacing),
        "w1_chi": lambda z: losses.radial_wasserstein_loss(z, "quantiles"),
        "radius_mean": lambda z: z.norm(dim=1).mean(),
        "radius_std": lambda z: z.norm(dim=1).std(),
    }
    of_the_views = {
        "embedding_mean_norm": lambda z: z.mean(dim=0).norm(),
        "embedding_mean_share": lambda z: z.mean(dim=0).square().sum() / z.square().sum(dim=1).mean(),
        "embedding_trace": lambda z: z.T.cov().trace() / (z.shape[1] - 1),
    }
    found = {term: two_means(function, batch.seen) / 2 for term, function in of_the_radii.items()}
    return found | {term: two_means(function, batch.views) / 2 for term, function in of_the_views.items()}


@pytest.mark.parametrize("shape", [(12, 5), (5, 12)], ids=["tall", "wide"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_view_without_a_gradient_a_view_given_twice_and_a_second_pass_keep_the_gradients(
    shape: tuple[int, int], create_graph: bool
) -> None:
    first, second = _views(2, shape)
    loss = RadialVICRegLoss(radial_center=True)
    total = loss(first, second)
    expected, _ = torch.autograd.grad(total, (first, second), retain_graph=True)
    again, _ = torch.autograd.grad(total, (first, second), create_graph=create_graph)
    torch.testing.assert_close(again, expected)
    (alone,) = torch.autograd.grad(loss(first, second.detach()), first, create_graph=create_graph)
    torch.testing.assert_close(alone, expected)
    found = torch.autograd.grad(loss(first, second, first), (first, second), create_graph=create_graph)
    copies = torch.autograd.grad(loss(first.clone(), second.clone(), first.clone()), (first, second))
    torch.testing.assert_close(found, copies)


def test_small_differences_of_many_views_survive_float32_beside_a_large_mean() -> None:
    """Differences as sums of squares minus the square of the sum would lose all digits."""
    exact = [(z.detach() * 1e-1 + 1e3).float() for z in _views(4)]
    objective = RadialVICRegLoss()
    objective(*exact)
    pairs = [losses.invariance_loss(*(z.double() for z in pair)) for pair in itertools.combinations(exact, 2)]
    assert float(objective.terms["vicreg_invariance"]) == pytest.approx(float(torch.stack(pairs).mean()), rel=1e-3)


def test_two_views_may_be_named() -> None:
    z1, z2 = _views(2)
    objective = RadialVICRegLoss()
    assert objective(z1=z1, z2=z2) == objective(z2=z2, z1=z1) == objective(z1, z2)


def test_views_of_different_precision_are_promoted() -> None:
    views = _views(3)
    mixed = (views[0].float(), views[1], views[2].half())
    expected = RadialVICRegLoss()(*(z.double() for z in mixed))
    assert torch.equal(RadialVICRegLoss()(*mixed), expected)


def test_every_view_has_draws_of_its_own_and_the_first_two_those_of_two_views() -> None:
    objective = RadialVICRegLoss(radial_objective="wasserstein", seed=4).eval()
    views = _views(4)
    draws = objective._draws(6, views)
    assert len({tuple(column) for column in draws.T.tolist()}) == 4
    assert torch.equal(draws[:, :2], objective._draws(6, views[:2]))


@pytest.mark.parametrize("name", DRAWING)
def test_a_call_counts_once_however_many_views_it_has(name: str) -> None:
    objective = RadialVICRegLoss(**CASES[name])
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
        ((ONE[None],), {}, FEW + r"one argument \(shape \(1, 4, 3\)\)\.$"),
        (([ONE, ONE],), {}, FEW + r"one argument \(list\)\.$"),
        ((ONE, TWO_TOGETHER), {}, r"^view 2: expected shape \(N, d\), got \(2, 4, 3\); .* alone\.$"),
        ((ONE,), {"z2": ONE}, "^expected views by position, or z1 and z2 by keyword, got 1 by position and z2 by"),
        ((), {"z1": ONE, "z2": ONE, "z3": ONE}, "got 0 by position and z1, z2, z3 by keyword"),
        ((), {"z1": ONE, "z2": ONE[:, :2]}, r"^view 1 and view 2 must have one shape .*\(4, 3\) and \(4, 2\)"),
        ((ONE, ONE, ONE.int()), {}, "^view 3: expected float16, bfloat16, float32 or float64, got torch.int32"),
        ((ONE, ONE, ONE.to("meta")), {}, "^view 3: expected values, got a tensor on the meta device"),
        ((ONE, None, ONE), {}, "^view 2: expected a torch.Tensor"),
        ((torch.stack((ONE, ONE, ONE / 0)),), {}, "^view 3: 12 of 12 values are not finite"),
        ((TWO_TOGETHER[:, :1],), {}, r"^view 1: at least 2 samples are needed, got shape \(1, 3\)"),
    ],
)
def test_other_arguments_are_refused_in_one_line(views: Views, keywords: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        RadialVICRegLoss()(*views, **keywords)
    assert "\n" not in str(caught.value)
