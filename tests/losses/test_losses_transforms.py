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
from objectives import CASES, DRAWING, FUNCTIONS
from packaging.version import parse as version
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

from radial_vicreg import losses
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses._chi import _cached_quantiles

Views = tuple[Tensor, ...]

#: Every objective that draws nothing, ...
OBJECTIVES: dict[str, dict[str, Any]] = {name: CASES[name] for name in CASES if name not in DRAWING}
#: ... the one that has every term, ...
EVERYTHING = "kl and all that is added"
#: ... and every function that draws nothing, of the views that it takes.
STILL: dict[str, Callable[..., Tensor]] = {
    "invariance": lambda z1, z2, *_: losses.invariance_loss(z1, z2),
    **{
        name: lambda z, *_, function=function: function(z)
        for name, function in FUNCTIONS.items()
        if "samples" not in name and "reverse_kl" not in name
    },
}
#: More samples than dimensions with two views, fewer with three.
SHAPES = {(12, 5): 2, (5, 12): 3}

# What traces takes half a second a case; test_what_was_traced_is_an_objective_as_before is for every day.
traced = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in OBJECTIVES])

exports = pytest.mark.skipif(
    version(torch.__version__) < version("2.8"), reason="torch.export of the losses needs PyTorch 2.8"
)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()


def _traced_views(name: str) -> Views:
    """Views of one shape and one precision for each objective."""
    place = list(OBJECTIVES).index(name)
    shape, number = list(SHAPES.items())[place % 2]
    return _views(shape, number, (torch.float32, torch.bfloat16)[place // 2 % 2])


def _views(shape: tuple[int, int], number: int = 2, dtype: torch.dtype = torch.float64) -> Views:
    generator = torch.Generator().manual_seed(shape[0])
    first, noise = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    second = first + 0.3 * noise
    return tuple(z.to(dtype) for z in (first, second, 0.5 * first - second)[:number])


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


@pytest.mark.parametrize("name", [*STILL, *(f"objective {name}" for name in OBJECTIVES)])
def test_transforms_equal_autograd_and_a_loop(name: str) -> None:
    loss = STILL[name] if name in STILL else RadialVICRegLoss(**OBJECTIVES[name.removeprefix("objective ")])
    near = {"rtol": 1e-9, "atol": 1e-12}
    for shape, number in SHAPES.items():
        first, *others = views = _views(shape, number)
        expected = _gradient(lambda z, others=others: loss(z, *others), first)
        for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
            torch.testing.assert_close(transform(loss)(*views), expected, **near)
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(loss(forward_ad.make_dual(first, others[-1]), *others)).tangent
        torch.testing.assert_close(tangent, (expected * others[-1]).sum(), **near)
        batches = [torch.stack([(1 + k) * z for k in range(3)]) for z in views]
        loop = torch.stack([loss(*each) for each in zip(*batches, strict=True)])
        torch.testing.assert_close(torch.func.vmap(loss)(*batches), loop, **near)
    first, *others = views = _views((4, 3), 3)
    expected = torch.autograd.functional.hessian(lambda z: loss(z, *others), first)
    torch.testing.assert_close(torch.func.hessian(loss)(*views), expected, rtol=1e-8, atol=1e-9)


def test_vmap_of_views_in_one_tensor_equals_a_loop() -> None:
    objective = RadialVICRegLoss(**OBJECTIVES[EVERYTHING])
    stacked = torch.stack([(1 + k) * torch.stack(_views((4, 3), 3)) for k in range(3)])
    expected = torch.stack([objective(*views) for views in stacked])
    torch.testing.assert_close(torch.func.vmap(objective)(stacked), expected, rtol=1e-9, atol=1e-12)


@traced
def test_the_objective_is_one_graph_for_the_compiler(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    first, *others = _traced_views(name)
    eager, objective = (RadialVICRegLoss(**OBJECTIVES[name]) for _ in range(2))
    # Without the code generator, which takes half a minute: the slow test in test_losses_objective.py has it.
    compiled = torch.compile(objective, fullgraph=True, backend="eager")
    with no_warnings():
        found = _gradient(lambda z: compiled(z, *others), first)
        torch.testing.assert_close(compiled(first, *others), eager(first, *others))  # nothing wants a gradient
    torch.testing.assert_close(found, _gradient(lambda z: eager(z, *others), first))
    torch.testing.assert_close(objective.terms, eager.terms)
    assert "Graph break" not in "".join(capfd.readouterr())


@exports
@traced
def test_the_exported_objective_gives_the_same_values(name: str) -> None:
    _cached_quantiles.cache_clear()  # what is first met while tracing must not stay
    objective = RadialVICRegLoss(**OBJECTIVES[name])
    program = torch.export.export(objective, _traced_views(name))
    assert objective.terms == {}, "traced tensors were kept"
    views = tuple(2 * z + 0.1 for z in _traced_views(name))
    torch.testing.assert_close(program.module()(*views), objective(*views), rtol=1e-5, atol=1e-5)  # in float32
    assert all(type(term) is Tensor for term in objective.terms.values())


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True], ids=["first shapes", "dynamic"])
def test_the_functions_are_one_graph_for_the_compiler(dynamic: bool | None, capfd: pytest.CaptureFixture[str]) -> None:
    def every_function(*views: Tensor) -> Tensor:
        return torch.stack([function(*views) for function in STILL.values()])

    compiled = torch.compile(every_function, fullgraph=True, backend="eager", dynamic=dynamic)
    for shape in ((12, 5), (16, 5)):
        z1, z2 = _views(shape)
        found, expected = (
            torch.autograd.functional.jacobian(lambda z, call=call, other=z2: call(z, other), z1)
            for call in (compiled, every_function)
        )
        torch.testing.assert_close(found, expected)
    assert "Graph break" not in "".join(capfd.readouterr())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wasserstein", "reverse_kl", "function"])
def test_draws_break_the_graph_without_a_warning(kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    drawing: Any = lambda z1, z2, _: losses.radial_wasserstein_loss(z1) + losses.radial_reverse_kl_loss(z2)  # noqa: E731
    if kind != "function":
        drawing = RadialVICRegLoss(radial_objective=kind)
    values = []
    for function in (drawing, torch.compile(drawing, backend="eager")):
        if isinstance(drawing, nn.Module):
            drawing.load_state_dict({losses.EXTRA_STATE: 5})
        torch.manual_seed(0)
        with no_warnings():
            values.append(function(*_views((12, 5), 3)))
    torch.testing.assert_close(*values)
    assert "break" not in "".join(capfd.readouterr())


@exports
def test_what_was_traced_is_an_objective_as_before() -> None:
    """A compiled, an exported and a transformed objective has its values, and looks at them when it is called."""
    views = _views((12, 5))
    objective = RadialVICRegLoss()
    expected = objective(*views)
    torch.testing.assert_close(torch.compile(objective, fullgraph=True, backend="eager")(*views), expected)
    torch.testing.assert_close(torch.export.export(objective, views).module()(*views), expected)
    torch.func.grad(objective)(*views)
    assert objective.terms == {}
    with pytest.raises(ValueError, match="view 2: 60 of 60 values are not finite"):
        objective(views[0], torch.full_like(views[1], torch.nan))


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
