"""docs/tables.md and docs/betas.md hold what ``python -m benchmarks.gains`` and ``benchmarks.betas`` print."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import betas, gains
from benchmarks.studies import EVIDENCE, runs_of
from radial_vicreg.compose import compose, run_config
from radial_vicreg.losses import radial_equilibrium
from radial_vicreg.paper.values import paper
from radial_vicreg.report.collect import Run
from radial_vicreg.runs.results import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
BETAS = PAGE.with_name("betas.md")


@pytest.mark.slow  # seconds of order statistics
def test_the_page_holds_every_table_of_the_script() -> None:
    for title, table in gains.tables().items():
        assert table in PAGE.read_text(), (
            f"docs/tables.md lacks a table of `python -m benchmarks.gains`: {title}\n{table}"
        )


def test_the_readme_gives_every_gain_of_the_papers_linear_probes() -> None:
    tables = paper()["tables"]
    rows = {"ResNet-18": tables["1"]["resnet18"], "ViT-Tiny": tables["1"]["vit_tiny"], "ImageNet-10": tables["2"]}
    said = " ".join((PAGE.parents[1] / "README.md").read_text().split())
    found = {
        name: {d: gains.welch(row["radialvicreg"][d]["top1"], row["vicreg"][d]["top1"]) for d in row["vicreg"]}
        for name, row in rows.items()
    }
    for name, by_dim in found.items():
        assert f"{name} {str(by_dim['512']).strip('*')}" in said
    of_2048 = ", ".join(f"{by_dim['2048'].value:+.2f}" for by_dim in found.values())
    assert f"({of_2048})" in said
    assert f"8192 ({found['ImageNet-10']['8192'].value:.2f})" in said


def test_welchs_interval_is_that_of_scipy() -> None:
    samples = [np.array([64.0, 65.5, 66.0]), np.array([63.0, 63.1, 63.4])]
    found = gains.welch(*((x.mean(), x.std(ddof=1)) for x in samples))
    wanted = stats.ttest_ind(*samples, equal_var=False)
    interval = wanted.confidence_interval(0.95)
    assert (found.low, found.high, found.p) == pytest.approx((interval.low, interval.high, wanted.pvalue))


def test_the_arithmetic_of_several_comparisons() -> None:
    # Holm: 3 x 0.01; 2 x 0.02 = 0.04; 1 x 0.03 is raised to its predecessor.
    assert gains.holm([0.02, 0.01, 0.03]) == pytest.approx([0.04, 0.03, 0.04])
    assert gains.holm([0.9, 0.8]) == [1.0, 1.0]
    # The best of equal settings, by order statistics.
    assert [gains.expected_maximum(count) for count in (1, 2, 3)] == pytest.approx(
        [0, 1 / math.sqrt(math.pi), 1.5 / math.sqrt(math.pi)], abs=1e-9
    )
    assert gains.settings_of("cifar100_resnet18") == (46, 2)
    assert gains.selection("imagenet10/resnet18/radialvicreg_d512", (0.0, 0.0)) == 0
    assert gains.selection("celeba/resnet18/radial_kl_d512", (1.0, 1.0)) is None  # its settings are not known


@pytest.mark.slow  # each composition takes a quarter of a second
def test_runs_of_a_cell_join_its_row(tmp_path: Path) -> None:
    kept = next(EVIDENCE.glob(f"study2/*/{RESULTS}"))
    for method, accuracies in {"radialvicreg": (66.0, 67.0), "vicreg": (64.0, 64.0)}.items():
        config = run_config(compose(f"cifar100/resnet18/{method}_d512", [])).plain()
        for seed, accuracy in zip((5, 6), accuracies, strict=True):
            content = json.loads(kept.read_text()) | {"config": config | {"seed": seed}, "seed": seed}
            content["probes"] = {"online_linear": {"top1": accuracy, "top5": 88.0}}
            file = tmp_path / f"{method}-{seed}" / RESULTS
            file.parent.mkdir()
            file.write_text(json.dumps(content))
    rows = [row for row in gains.tables([tmp_path])["probes of classes"].splitlines() if "paired" in row]
    assert len(rows) == 1
    assert "ResNet-18 | 512 " in rows[0]
    assert "2.50 ± 0.50 (paired, n 2" in rows[0]


# betas


@pytest.mark.slow  # seconds of equilibria
def test_the_page_of_betas_holds_every_table_of_the_script() -> None:
    sizes = betas.DIMS, betas.BATCHES
    tables = betas.plain_table(*sizes, betas.RATIOS), betas.divided_table(*sizes, betas.RATIOS)
    for expected in (*tables, betas.stability_table(*sizes)):
        assert expected in BETAS.read_text(), (
            f"docs/betas.md lacks this table of `python -m benchmarks.betas`:\n{expected}"
        )


@pytest.mark.parametrize(
    ("name", "table", "page"),
    [("betas", betas.trained_table, "betas.md"), ("readings", betas.readings_table, "tables.md")],
)
def test_a_page_has_the_kept_runs(name: str, table: Callable[[list[Run]], str], page: str) -> None:
    runs = runs_of(EVIDENCE / name)
    assert len(runs) == 7
    assert table(runs) in (BETAS.parent / page).read_text()


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
