"""The examples in the docstrings of the mathematics are executed, and names that documents showed can be imported."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

PUBLIC = ["radial_vicreg.losses", "radial_vicreg.diagnostics"]


def modules() -> list[str]:
    """Every module of the mathematics by name."""
    packages = [importlib.import_module(name) for name in PUBLIC]
    return [info.name for found in packages for info in pkgutil.iter_modules(found.__path__, f"{found.__name__}.")]


@pytest.mark.parametrize("name", modules())
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0  # what differs is printed


def public_names(module: ModuleType) -> list[str]:
    """Functions and modules of a loss that a user calls; not what they return."""
    callables = {name: getattr(module, name) for name in module.__all__ if callable(getattr(module, name))}
    return [name for name, value in callables.items() if not hasattr(value, "__dataclass_fields__")]


def test_what_is_public_has_an_example() -> None:
    functions = [(module, name) for module in PUBLIC for name in public_names(importlib.import_module(module))]
    classes = [("radial_vicreg.diagnostics.gaussianize", name) for name in ("Whitener", "RadialGaussianizer")]
    documents = {
        name: inspect.getdoc(getattr(importlib.import_module(place), name)) for place, name in functions + classes
    }
    assert [name for name, document in documents.items() if ">>> " not in (document or "")] == []


@pytest.mark.parametrize(
    ("former", "place", "names"),
    [
        ("gaussianize", "diagnostics.gaussianize", ("RadialGaussianizer", "Whitener")),
        ("loaded_run", "runs.loaded", ("LoadedRun", "open_run")),
        ("results", "runs.results", ("RESULTS", "RunResults")),
        ("stability", "nets.stability", ("equilibrium_of", "stability_of")),
    ],
)
def test_a_former_place_has_the_same_names(former: str, place: str, names: tuple[str, ...]) -> None:
    old, new = (importlib.import_module(f"radial_vicreg.{name}") for name in (former, place))
    for name in names:
        assert getattr(old, name) is getattr(new, name)
