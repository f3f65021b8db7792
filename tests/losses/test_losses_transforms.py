"""torch.func, second derivatives, torch.compile(fullgraph=True), torch.export, wherever nothing is drawn."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from objectives import CASES
from objectives import DRAWING as DRAWING_CASES
from packaging.version import parse as version
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses._chi import _cached_quantiles
from radial_vicreg.names.terms import ADDED

#: Every function of one view that draws nothing.
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "invariance": lambda z: losses.invariance_loss(z, z.square()),
    "variance": losses.variance_loss,
    "covariance": losses.covariance_loss,
    "chi_cross_entropy": losses.chi_cross_entropy,
    "m_spacing_entropy": lambda z: losses.m_spacing_entropy(z.norm(dim=1)),
    "gaussianization": lambda z: losses.radial_gaussianization_loss(z, 1.5, 0.3),
    "radial_kl": losses.radial_kl,
    "wasserstein": lambda z: losses.radial_wasserstein_loss(z, "quantiles"),
    "marginal_entropy": losses.marginal_entropy,
    "hypercovariance": losses.hypercovariance_loss,
    "e2mc": losses.e2mc_loss,
    "mean": losses.mean_loss,
}
#: Every objective that draws nothing.
OBJECTIVES: dict[str, dict[str, Any]] = {name: CASES[name] for name in CASES if name not in DRAWING_CASES}
EVERYTHING = "kl and all that is added"
DRAWING = {
    "wasserstein": RadialVICRegLoss(radial_objective="wasserstein"),
    "reverse_kl": RadialVICRegLoss(radial_objective="reverse_kl"),
    "function": lambda z1, z2: losses.radial_wasserstein_loss(z1) + losses.radial_reverse_kl_loss(z2),
}


def _is_variant(name: str) -> bool:
    """Whether another case has the same terms."""
    return name.partition(",")[0] in OBJECTIVES.keys() - {name} or any(name == term.symbol for term in ADDED)


functions = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
# What traces takes half a second a case: one of each objective is enough from day to day.
objectives = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=pytest.mark.slow if _is_variant(name) else ())
        for name, settings in OBJECTIVES.items()
    ],
)
shapes = pytest.mark.parametrize("shape", [(12, 5), (5, 12)], ids=["N > d", "N < d"])
# What traces takes half a second a case: one shape and one precision of each objective are enough from day to day.
traced_shapes = pytest.mark.parametrize(
    "shape", [pytest.param((12, 5), id="N > d"), pytest.param((5, 12), id="N < d", marks=pytest.mark.slow)]
)
traced_dtypes = pytest.mark.parametrize(
    "dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)], ids=str
)
FEW = {"covariance", "m_spacing_entropy", "wasserstein"}
traced_functions = pytest.mark.parametrize(
    "function",
    [
        pytest.param(function, id=name, marks=() if name in FEW else pytest.mark.slow)
        for name, function in FUNCTIONS.items()
    ],
)
# Finite differences take the square of the number of entries.
few_entries = pytest.mark.parametrize("shape", [(7, 3), (4, 6)], ids=["N > d", "N < d"])


def needs_torch(oldest: str, what: str) -> pytest.MarkDecorator:
    old = version(torch.__version__) < version(oldest)
    return pytest.mark.skipif(old, reason=f"{what} needs PyTorch {oldest}, found {torch.__version__}")


exports = needs_torch("2.8", "torch.export of the losses")


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def _views(shape: tuple[int, int], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(shape[0])
    first, noise = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return first.to(dtype), (first + 0.3 * noise).to(dtype)


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The compiler of PyTorch before 2.14 warns of its own handling of any torch.autograd.Function.
        warnings.filterwarnings("ignore", ".*should not be instantiated", DeprecationWarning)
        warnings.filterwarnings("ignore", "Guards may run slower on Python 3.13.0", RuntimeWarning)
        yield


def _gradient(function: Callable[[Tensor], Tensor], z: Tensor) -> Tensor:
    z = z.detach().requires_grad_()
    return torch.autograd.grad(function(z), z)[0]


@shapes
@objectives
def test_func_grad_and_jacrev_of_the_objective_equal_autograd(settings: dict[str, Any], shape: tuple[int, int]) -> None:
    z1, z2 = _views(shape)
    objective = RadialVICRegLoss(**settings)
    expected = _gradient(lambda z: objective(z, z2), z1)
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(objective)(z1, z2), expected, rtol=1e-9, atol=1e-12)


@functions
def test_func_grad_and_jacrev_of_a_function_equal_autograd(function: Callable[[Tensor], Tensor]) -> None:
    z, _ = _views((12, 5))
    expected = _gradient(function, z)
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(function)(z), expected, rtol=1e-9, atol=1e-12)


@few_entries
@objectives
def test_hessian_of_the_objective_equals_that_of_autograd(settings: dict[str, Any], shape: tuple[int, int]) -> None:
    z1, z2 = _views(shape)
    objective = RadialVICRegLoss(**settings)
    expected = torch.autograd.functional.hessian(lambda z: objective(z, z2), z1)
    torch.testing.assert_close(torch.func.hessian(objective)(z1, z2), expected, rtol=1e-8, atol=1e-9)


@few_entries
@objectives
def test_second_derivatives_of_the_objective_equal_finite_differences(
    settings: dict[str, Any], shape: tuple[int, int]
) -> None:
    objective = RadialVICRegLoss(**{"radial_ce_loss_weight": 2.0, **settings})
    views = tuple(z.requires_grad_() for z in _views(shape))
    assert torch.autograd.gradcheck(objective, views, eps=1e-7, atol=1e-4, rtol=1e-3)
    assert torch.autograd.gradgradcheck(objective, views, eps=1e-7, atol=1e-4, rtol=1e-3)


@few_entries
@functions
def test_second_derivatives_of_a_function_equal_finite_differences(
    function: Callable[[Tensor], Tensor], shape: tuple[int, int]
) -> None:
    assert torch.autograd.gradgradcheck(function, (_views(shape)[0].requires_grad_(),), eps=1e-7, atol=1e-4, rtol=1e-3)


@objectives
def test_forward_mode_equals_backward_mode(settings: dict[str, Any]) -> None:
    z1, z2 = _views((12, 5))
    objective = RadialVICRegLoss(**settings)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(objective(forward_ad.make_dual(z1, z2), z2)).tangent
    torch.testing.assert_close(tangent, (_gradient(lambda z: objective(z, z2), z1) * z2).sum(), rtol=1e-9, atol=1e-12)


@shapes
@objectives
def test_vmap_equals_a_loop(settings: dict[str, Any], shape: tuple[int, int]) -> None:
    objective = RadialVICRegLoss(**settings)
    batches = [torch.stack([(1 + k) * z for k in range(3)]) for z in _views(shape)]
    expected = torch.stack([objective(*pair) for pair in zip(*batches, strict=True)])
    torch.testing.assert_close(torch.func.vmap(objective)(*batches), expected, rtol=1e-9, atol=1e-12)


@functions
def test_vmap_of_a_function_equals_a_loop(function: Callable[[Tensor], Tensor]) -> None:
    batch = torch.stack([(1 + k) * _views((12, 5))[0] for k in range(3)])
    torch.testing.assert_close(torch.func.vmap(function)(batch), torch.stack([*map(function, batch)]))


def test_transforms_leave_no_terms_that_are_useless_after_them() -> None:
    z1, z2 = _views((12, 5))
    objective = RadialVICRegLoss()
    objective(z1, z2)
    torch.func.grad(objective)(z1, z2)
    assert objective.terms == {}


@traced_dtypes
@traced_shapes
@objectives
def test_the_objective_is_one_graph_for_the_compiler(
    settings: dict[str, Any], shape: tuple[int, int], dtype: torch.dtype, capfd: pytest.CaptureFixture[str]
) -> None:
    z1, z2 = _views(shape, dtype)
    eager, objective = RadialVICRegLoss(**settings), RadialVICRegLoss(**settings)
    # Without the code generator, which takes half a minute: the slow test in test_losses_objective.py has it.
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    with no_warnings():
        found = _gradient(lambda z: compiled(z, z2), z1)
    torch.testing.assert_close(found, _gradient(lambda z: eager(z, z2), z1))
    torch.testing.assert_close(objective.terms, eager.terms)
    assert "Graph break" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "dynamic", [pytest.param(None, id="first shapes"), pytest.param(True, id="dynamic", marks=pytest.mark.slow)]
)
@traced_functions
def test_a_function_is_one_graph_for_the_compiler(
    function: Callable[[Tensor], Tensor], dynamic: bool | None, capfd: pytest.CaptureFixture[str]
) -> None:
    compiled = torch.compile(function, fullgraph=True, backend="eager", dynamic=dynamic)
    for shape in ((12, 5), (16, 5)):
        z = _views(shape)[0]
        torch.testing.assert_close(_gradient(compiled, z), _gradient(function, z))
    assert "Graph break" not in "".join(capfd.readouterr())


def test_a_transform_of_the_objective_can_be_compiled() -> None:
    z1, z2 = _views((12, 5))
    gradient = torch.func.grad(RadialVICRegLoss())
    compiled = torch.compile(gradient, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(z1, z2), gradient(z1, z2))


@pytest.mark.parametrize(
    "drawing",
    [
        pytest.param(drawing, id=name, marks=() if name == "wasserstein" else pytest.mark.slow)
        for name, drawing in DRAWING.items()
    ],
)
def test_draws_break_the_graph_without_a_warning(
    drawing: Callable[..., Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    views = _views((12, 5))
    values = []
    for function in (drawing, torch.compile(drawing, backend="eager")):
        if isinstance(drawing, nn.Module):
            drawing.load_state_dict({"_extra_state": 5})
        torch.manual_seed(0)
        with no_warnings():
            values.append(function(*views))
    torch.testing.assert_close(*values)
    assert "break" not in "".join(capfd.readouterr())


@exports
@traced_dtypes
@traced_shapes
@objectives
def test_the_exported_objective_gives_the_same_values(
    settings: dict[str, Any], shape: tuple[int, int], dtype: torch.dtype
) -> None:
    _cached_quantiles.cache_clear()  # what is first met while tracing must not stay
    objective = RadialVICRegLoss(**settings)
    program = torch.export.export(objective, _views(shape, dtype))
    assert objective.terms == {}, "traced tensors were kept"
    views = tuple(2 * z + 0.1 for z in _views(shape, dtype))
    torch.testing.assert_close(program.module()(*views), objective(*views))
    assert all(type(term) is Tensor for term in objective.terms.values())


@exports
@traced_functions
def test_an_exported_function_gives_the_same_values(function: Callable[[Tensor], Tensor]) -> None:
    class Module(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return function(z)

    z = _views((12, 5))[0]
    torch.testing.assert_close(torch.export.export(Module(), (z,)).module()(2 * z), function(2 * z))


@exports
def test_values_are_looked_at_by_calls_that_are_not_traced() -> None:
    """Also after the same objective was compiled, exported and transformed."""
    views = _views((12, 5))
    objective = RadialVICRegLoss()
    torch.compile(objective, fullgraph=True, backend="eager")(*views)
    torch.export.export(objective, views)
    torch.func.grad(objective)(*views)
    with pytest.raises(ValueError, match="view 2: 60 of 60 values are not finite"):
        objective(views[0], torch.full_like(views[1], torch.nan))


def _three_views(shape: tuple[int, int] = (12, 5)) -> tuple[Tensor, ...]:
    z1, z2 = _views(shape)
    return z1, z2, 0.5 * z1 - z2


@shapes
@objectives
def test_transforms_of_three_views_equal_autograd(settings: dict[str, Any], shape: tuple[int, int]) -> None:
    first, *others = _three_views(shape)
    objective = RadialVICRegLoss(**settings)
    expected = _gradient(lambda z: objective(z, *others), first)
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(objective)(first, *others), expected, rtol=1e-9, atol=1e-12)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(objective(*others, forward_ad.make_dual(first, others[0]))).tangent
    expected = _gradient(lambda z: objective(*others, z), first)
    torch.testing.assert_close(tangent, (expected * others[0]).sum(), rtol=1e-9, atol=1e-12)


@objectives
def test_hessian_and_vmap_of_three_views_equal_autograd_and_a_loop(settings: dict[str, Any]) -> None:
    first, *others = _three_views((4, 3))
    objective = RadialVICRegLoss(**settings)
    expected = torch.autograd.functional.hessian(lambda z: objective(z, *others), first)
    torch.testing.assert_close(torch.func.hessian(objective)(first, *others), expected, rtol=1e-8, atol=1e-9)
    batches = [torch.stack([(1 + k) * z for k in range(3)]) for z in (first, *others)]
    expected = torch.stack([objective(*views) for views in zip(*batches, strict=True)])
    torch.testing.assert_close(torch.func.vmap(objective)(*batches), expected, rtol=1e-9, atol=1e-12)
    stacked = torch.stack(batches, dim=1)
    torch.testing.assert_close(torch.func.vmap(objective)(stacked), expected, rtol=1e-9, atol=1e-12)


#: Ways to pass views to a loss: how many there are and in which form is part of a graph.
FORMS: dict[str, Callable[..., tuple[tuple[Tensor, ...], dict[str, Tensor]]]] = {
    "three": lambda *views: (views, {}),
    "four": lambda *views: ((*views, views[0].square()), {}),
    "together": lambda *views: ((torch.stack(views),), {}),
    "named": lambda z1, z2, _: ((), {"z1": z1, "z2": z2}),
}
forms = pytest.mark.parametrize(
    "form",
    [pytest.param(form, id=name, marks=pytest.mark.slow if name != "three" else ()) for name, form in FORMS.items()],
)


@forms
def test_any_number_of_views_is_one_graph_for_the_compiler(
    form: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    settings = OBJECTIVES[EVERYTHING]
    eager, objective = RadialVICRegLoss(**settings), RadialVICRegLoss(**settings)
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    views, keywords = form(*_three_views())
    with no_warnings():
        torch.testing.assert_close(compiled(*views, **keywords), eager(*views, **keywords))  # nothing wants a gradient
        leaves = [z.requires_grad_() for z in (*views, *keywords.values())]
        gradients = [torch.autograd.grad(loss(*views, **keywords), leaves) for loss in (compiled, eager)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(objective.terms, eager.terms)
    assert "Graph break" not in "".join(capfd.readouterr())


def test_draws_for_three_views_break_the_graph_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    views = _three_views()
    drawing = {"radial_objective": "wasserstein"}
    with no_warnings():
        found = torch.compile(RadialVICRegLoss(**drawing), backend="eager")(*views)
    torch.testing.assert_close(found, RadialVICRegLoss(**drawing)(*views))
    assert "break" not in "".join(capfd.readouterr())


@exports
@forms
def test_the_exported_objective_of_any_number_of_views_gives_the_same_values(form: Callable[..., Any]) -> None:
    objective = RadialVICRegLoss(**OBJECTIVES[EVERYTHING])
    program = torch.export.export(objective, *form(*_three_views()))
    views, keywords = form(*(2 * z + 0.1 for z in _three_views()))
    torch.testing.assert_close(program.module()(*views, **keywords), objective(*views, **keywords))


META = torch.empty(12, 5, device="meta")


@pytest.mark.parametrize(
    ("call", "name"),
    [(RadialVICRegLoss(), "view 1"), (losses.invariance_loss, "z1")]
    + [(lambda z, _, f=function: f(z), "z") for function in (losses.covariance_loss, losses.radial_kl)]
    + [(lambda z, _: losses.m_spacing_entropy(z[:, 0]), "radii")]
    + [(lambda z, _: losses.radial_wasserstein_loss(torch.randn(12, 5), z[:, 0]), "target")],
)
def test_meta_tensors_are_refused_with_words(call: Callable[..., Tensor], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected values, got a tensor on the meta device"):
        call(META, META)


@pytest.mark.parametrize("call", [RadialVICRegLoss(), losses.invariance_loss], ids=["objective", "invariance"])
def test_views_on_two_devices_are_refused_with_words(call: Callable[..., Tensor]) -> None:
    with FakeTensorMode():  # there may be no second device
        views = torch.empty(12, 5), torch.empty(12, 5, device="cuda:0")
        with pytest.raises(ValueError, match="must be on one device, got cpu and cuda:0; move one of them"):
            call(*views)


@pytest.mark.slow
def test_drawing_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch; from radial_vicreg.losses import RadialVICRegLoss\n"
        "z = torch.randn(8, 3)\n"
        "RadialVICRegLoss(radial_objective='reverse_kl')(z, z)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False"]
