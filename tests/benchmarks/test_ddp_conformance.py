"""The comparison of losses under DDP: its arithmetic with one process, and ours and the adapters under two."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks import ddp_conformance, ddp_losses
from benchmarks.ddp_conformance import ENTRIES, agreement, call, one_process, views
from benchmarks.ddp_losses import ALIKE, OURS, OWN, Entry

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "ddp.md"
SIZES = [(16, 32), (32, 16)]
#: Relative difference that float32 leaves: the entropy divides by spacings of radii, whose last digits count.
ROUNDING = 2e-4


def _mean_of_squares(z1: Tensor, z2: Tensor) -> Tensor:
    return z1.square().mean() + 3 * z2.square().mean()


def _halves(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    first, second = embeddings.chunk(2, dim=1)
    return first, second


def _entry(build: Any, draws: str = ddp_losses.NONE, package: str = OURS, requires: str = "torch") -> Entry:
    return Entry(package, "a loss", "a setting", requires, build, draws)


def _numbers(*packages: str) -> list[int]:
    return [number for number, entry in enumerate(ENTRIES) if entry.package in packages]


def _total(z1: Tensor, z2: Tensor) -> Tensor:
    return z1.square().sum() + z2.square().sum()


def test_means_agree_and_sums_are_seen_to_be_divided_by_the_processes() -> None:
    embeddings = views(8, 5)
    for loss, share in ((_mean_of_squares, 1), (_total, 0.5)):
        ranks = [call(loss, half, seed=0) for half in _halves(embeddings)]
        found = agreement(ranks, call(loss, embeddings, seed=0))
        assert found.value == pytest.approx(share * found.expected)
        assert (found.norm_ratio, found.cosine) == pytest.approx((share, 1))
        assert found.difference == pytest.approx(1 - share, abs=ROUNDING)
    turned = agreement(ranks[::-1], call(_total, embeddings, seed=0))
    assert turned.norm_ratio == pytest.approx(0.5)
    assert turned.cosine < 0.9, "the rows of the processes stand in their order"


def test_one_process_takes_the_mean_over_draws_that_stay_on_their_process() -> None:
    def drawing() -> ddp_losses.Loss:
        return lambda z1, z2: (z1 * torch.rand(())).sum() + 0 * z2.sum()

    def draw(seed: int) -> float:
        return float(torch.rand((), generator=torch.Generator().manual_seed(seed)))

    embeddings = views(4, 3)
    expected = {OWN: (draw(0) + draw(1) + draw(2)) / 3, ALIKE: draw(0), ddp_losses.SHARED: draw(0)}
    for draws, factor in expected.items():
        found = one_process(_entry(drawing, draws), embeddings, processes=3).gradient
        torch.testing.assert_close(found[0], torch.full((4, 3), factor))


def test_only_what_stands_between_the_marks_of_a_page_is_replaced() -> None:
    start, end = ddp_conformance.START, ddp_conformance.END
    page = f"before\n{start}\nold\n{end}\nafter\n"
    assert ddp_conformance.with_table(page, "new") == f"before\n{start}\nnew\n{end}\nafter\n"
    for wrong in ("no marks", f"{end}\n{start}", page + page):
        with pytest.raises(ValueError, match="one line"):
            ddp_conformance.with_table(wrong, "new")


def test_the_page_shows_a_results_file_where_ours_agrees() -> None:
    page = PAGE.read_text()
    files = (REPOSITORY / "benchmarks" / "results").glob("ddp-conformance-*.json")
    stored = [json.loads(path.read_text()) for path in files]
    shown = [one for one in stored if ddp_conformance.table(one["rows"], one["sizes"]) in page]
    assert len(shown) == 1
    rows = shown[0]["rows"]
    assert [(row["package"], row["loss"], row["setting"]) for row in rows] == [
        (entry.package, entry.loss, entry.setting) for entry in ENTRIES
    ]
    for row in rows:
        if row["package"] == OURS and "False" not in row["setting"]:
            assert all(found["difference"] < ROUNDING for found in row["sizes"].values()), row


@pytest.mark.slow
def test_ours_and_the_adapters_under_two_processes_are_as_the_page_says() -> None:
    packages = [OURS, *(["lightly"] if importlib.util.find_spec("lightly") else [])]
    rows = ddp_conformance.compare(_numbers(*packages), SIZES, processes=2)
    for row in rows:
        assert row["problem"] is None, row
        local = "False" in row["setting"] or row["loss"] == "BarlowTwinsLoss"
        for found in row["sizes"].values():
            assert (found["difference"] > 0.01) if local else (found["difference"] < ROUNDING), row
            if not local:
                assert found["value"] == pytest.approx(found["expected"], rel=ROUNDING), row
