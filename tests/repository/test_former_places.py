"""Names that the documents have shown stay importable from where they were."""

from __future__ import annotations

import importlib

import pytest


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
