"""docs/betas.md holds what ``python -m benchmarks.betas`` prints, and its rules of thumb are those of the numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import betas
from radial_vicreg.losses import radial_equilibrium

PAGE = (Path(__file__).parents[2] / "docs" / "betas.md").read_text()


@pytest.mark.slow  # seconds of equilibria
def test_the_page_holds_every_table_of_the_script() -> None:
    sizes = betas.DIMS, betas.BATCHES
    tables = betas.plain_table(*sizes, betas.RATIOS), betas.divided_table(*sizes, betas.RATIOS)
    for expected in (*tables, betas.stability_table(*sizes)):
        assert expected in PAGE, f"docs/betas.md lacks this table of `python -m benchmarks.betas`:\n{expected}"


@pytest.mark.parametrize(("dim", "ratio", "normalize"), [(128, 0.5, False), (2048, 0.01, True)])
def test_the_deviation_is_the_pages_rule_of_thumb(dim: int, ratio: float, normalize: bool) -> None:
    found = radial_equilibrium(dim, 1.0, ratio, count=256, normalize_ce=normalize)
    assert found is not None
    assert found.std == pytest.approx(math.sqrt((dim if normalize else 1) * ratio / 2), rel=0.01)


def test_the_limit_grows_with_d_only_under_the_factor_and_falls_with_the_batch() -> None:
    plain, divided = (betas.largest(betas.setting("lars", 0.9, flag, 512)) for flag in (False, True))
    assert (plain, divided) == (pytest.approx(0.95), pytest.approx(0.95 * 512))
    assert betas.largest(betas.setting("lars", 0.9, False, 8192)) == pytest.approx(plain)
    as_written = betas.largest(betas.setting("lars", 0.9, False, 512, batch=1024), as_written=True)
    assert as_written == pytest.approx(plain / 4)
