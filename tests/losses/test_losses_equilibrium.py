"""The equilibrium of the radial term: the published table, optimality, and the library's own losses at it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from radial_vicreg.losses import RadialEquilibrium, radial_equilibrium, radial_gaussianization_loss
from radial_vicreg.losses.equilibrium import MOST_SAMPLES, equilibrium_radii

DIMENSIONS = st.one_of(st.integers(1, 4), st.sampled_from([16, 512, 2048, 8192]))
WEIGHTS = st.floats(-3, 3).map(lambda power: 10.0**power)


def radial_term(radii: np.ndarray, dim: int, ratio: float, m: int) -> float:
    """The library's own loss of a batch with these radii, along one axis."""
    z = torch.zeros(len(radii), dim, dtype=torch.float64)
    z[:, 0] = torch.from_numpy(np.asarray(radii))
    return float(radial_gaussianization_loss(z, 1.0, ratio, m))


@pytest.mark.parametrize(
    ("weights", "dim", "normalized", "plain"),
    [
        ((1, 0.1), 2048, (10.0, 7.6), (0.22, 0.38)),
        ((1, 0.1), 512, (5.0, 3.5), (0.22, 0.38)),
        ((100, 0), 512, (0.0, 0.56), (0.0, 0.56)),
    ],
)
def test_the_factor_pulls_radii_away_from_chi_when_the_entropy_counts(
    weights: tuple[float, float], dim: int, normalized: tuple[float, float], plain: tuple[float, float]
) -> None:
    # Deviation and distance that a minimisation over 256 free radii found, written to the digits that it gave.
    for factor, (std, w1) in ((True, normalized), (False, plain)):
        found = radial_equilibrium(dim, *weights, count=256, normalize_ce=factor)
        assert found is not None
        assert found.std == pytest.approx(std, abs=0.051 if std >= 1 else 0.0051)
        assert found.w1 == pytest.approx(w1, abs=0.051 if w1 >= 1 else 0.0051)


@settings(derandomize=True, max_examples=50)
@given(DIMENSIONS, WEIGHTS, st.integers(2, 300), st.data())
def test_no_perturbation_of_the_radii_lowers_the_term(dim: int, ratio: float, count: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, count - 1), label="m")
    radii = equilibrium_radii(dim, ratio, count, m)
    assert (np.diff(radii) >= 0).all()
    best = radial_term(radii, dim, ratio, m)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    width = 10.0 ** data.draw(st.floats(-6, 0), label="width") * (radii.std() + 0.01)
    directions = [random.standard_normal(count) for _ in range(4)]
    directions += [np.eye(1, count, random.integers(count)).ravel(), np.ones(count), radii]
    for direction in directions:
        for sign in (-1, 1):
            moved = np.abs(radii + sign * width * direction)
            assert radial_term(moved, dim, ratio, m) >= best - 1e-12 * abs(best)


def test_without_a_minimum_there_is_no_equilibrium() -> None:
    assert radial_equilibrium(8192, 0.0, 0.1) == RadialEquilibrium(math.inf, math.inf, math.inf), "entropy alone"
    assert radial_equilibrium(512, 0.0, 0.0) is None
    for objective in ("none", "wasserstein", "reverse_kl"):
        assert radial_equilibrium(512, objective=objective) is None


def test_a_larger_batch_is_thinned_with_its_spacing() -> None:
    thinned = radial_equilibrium(512, count=4 * MOST_SAMPLES, m=160)
    assert thinned == radial_equilibrium(512, count=MOST_SAMPLES, m=40)
    whole = equilibrium_radii(512, 1.0, 4 * MOST_SAMPLES, 160)
    assert thinned is not None
    assert thinned.std == pytest.approx(whole.std(), rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim: expected an integer >= 1, got 0"),
        ({"dim": 8, "ce_weight": -1.0}, "ce_weight: expected a finite number >= 0"),
        ({"dim": 8, "count": 16, "m": 16}, r"m: expected an integer within 1\.\.15"),
        ({"dim": 8, "objective": "KL"}, "objective: expected one of kl"),
    ],
)
def test_a_bad_argument_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        radial_equilibrium(**arguments)  # type: ignore[arg-type]
