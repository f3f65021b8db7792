"""The power of the rows of ``diagnose`` in docs/diagnose.md is what ``python -m benchmarks.power`` has measured."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import power
from benchmarks.power import FILE, KINDS, NORMAL, SIZES

PAGE = Path(__file__).parents[2] / "docs" / "diagnose.md"
MEASURED: dict[str, Any] = json.loads(FILE.read_text())
NAMES = [f"{count}x{dim}" for count, dim in SIZES]


def shares(of_kind: list[list[list[str]]], names: list[str]) -> dict[str, float]:
    """The share of samples, of all seeds, of which a row is outside its band."""
    samples = list(chain.from_iterable(of_kind))
    return {name: float(np.mean([name in outside for outside in samples])) for name in names}


def test_the_page_holds_every_table_of_the_script() -> None:
    assert list(MEASURED) == NAMES
    for size, table in power.tables(MEASURED).items():
        assert table in PAGE.read_text(), f"docs/diagnose.md lacks a table of `python -m benchmarks.power`: {size}"


def test_random_signs_with_chi_radii_fail_in_every_dimension_and_in_no_average() -> None:
    found = shares(MEASURED["1000x64"]["outside"]["hypercube"], ["failing_dimensions", "w1_chi", "epps_pulley"])
    assert found["failing_dimensions"] == 1
    assert max(found["w1_chi"], found["epps_pulley"]) < 0.25


@pytest.mark.parametrize("size", NAMES)
def test_true_normal_samples_leave_a_band_in_5_percent(size: str) -> None:
    of_size = MEASURED[size]
    assert sum(map(len, of_size["outside"][NORMAL])) == power.CALIBRATION
    found = shares(of_size["outside"][NORMAL], [name for name in of_size["bands"][0] if name != "constant_dimensions"])
    # The share of 200 samples with five references has a standard deviation of 2.2 points in each row.
    assert np.mean(list(found.values())) == pytest.approx(0.05, abs=0.025)
    assert max(found.values()) < 0.05 + 4 * 0.022, found


@pytest.mark.parametrize("kind", [NORMAL, "hypercube"])
def test_a_sample_drawn_anew_leaves_the_same_bands(kind: str) -> None:
    of_size = MEASURED["1000x64"]
    z = power.sample(kind, 1000, 64, seed=0)
    assert power.rows_outside(z, of_size["bands"][0], seed=0) == of_size["outside"][kind][0][0]


def test_a_counterexample_has_mean_0_and_covariance_1_or_the_offset_and_rank_of_its_name() -> None:
    for kind in (NORMAL, "hypercube", "X", "Laplace", "sphere", "clusters", "scales"):
        z = power.sample(kind, 20_000, 4, seed=0)
        assert z.mean(dim=0).abs().max() < 0.05, kind
        assert torch.dist(torch.cov(z.T), torch.eye(4), p=torch.inf) < 0.08, kind
    assert power.sample("offset", 20_000, 4, seed=0).mean(dim=0).norm() == pytest.approx(0.5, abs=0.05)
    z = power.sample("low rank", 200, 10, seed=0)
    assert torch.linalg.matrix_rank(z) == 5
    assert z.square().sum(dim=1).mean() == pytest.approx(10, rel=0.2)


@pytest.mark.slow  # 39 normal samples of 1,000 embeddings, and one sample of each kind
@pytest.mark.parametrize("size", SIZES[:2])
def test_the_stored_bands_and_samples_are_measured_again(size: tuple[int, int]) -> None:
    stored = MEASURED["x".join(map(str, size))]
    found = power.measure([size], [3], dict.fromkeys(KINDS, 1))["x".join(map(str, size))]
    for name, band in found["bands"][0].items():
        assert stored["bands"][3][name] == pytest.approx(band, rel=1e-3, abs=1e-5), name
    for kind, (samples,) in found["outside"].items():
        assert samples[0] == stored["outside"][kind][3][0], kind
