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
from benchmarks.ddp_conformance import ENTRIES, Agreement, Outcome, agreement, call, one_process, views
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


def test_a_mean_over_samples_agrees_whatever_the_processes() -> None:
    embeddings = views(8, 5)
    ranks = [call(_mean_of_squares, half, seed=0) for half in _halves(embeddings)]
    found = agreement(ranks, call(_mean_of_squares, embeddings, seed=0))
    assert found.value == pytest.approx(found.expected)
    assert (found.norm_ratio, found.cosine) == pytest.approx((1, 1))
    assert found.difference < ROUNDING


def test_a_sum_over_samples_is_seen_to_be_divided_by_the_processes() -> None:
    def total(z1: Tensor, z2: Tensor) -> Tensor:
        return z1.square().sum() + z2.square().sum()

    embeddings = views(8, 5)
    ranks = [call(total, half, seed=0) for half in _halves(embeddings)]
    found = agreement(ranks, call(total, embeddings, seed=0))
    assert found.value == pytest.approx(found.expected / 2)
    assert (found.norm_ratio, found.cosine, found.difference) == pytest.approx((0.5, 1, 0.5))


def test_the_rows_of_the_processes_stand_in_their_order() -> None:
    embeddings = views(8, 5)
    first, second = (call(_mean_of_squares, half, seed=0) for half in _halves(embeddings))
    found = agreement([second, first], call(_mean_of_squares, embeddings, seed=0))
    assert found.norm_ratio == pytest.approx(1)
    assert found.cosine < 0.9


def test_an_angle_and_a_length_are_those_of_the_gradients() -> None:
    right = Outcome(torch.tensor(2.0), torch.tensor([[[1.0], [0.0]], [[0.0], [0.0]]]))
    ranks = [
        Outcome(torch.tensor(1.0), torch.tensor([[[2.0]], [[0.0]]])),
        Outcome(torch.tensor(5.0), torch.tensor([[[2.0]], [[0.0]]])),
    ]  # halved, (1, 1) beside (1, 0)
    assert agreement(ranks, right) == pytest.approx(Agreement(3.0, 2.0, 2**0.5, 0.5**0.5, 1.0))


def test_embeddings_need_every_term() -> None:
    z1, z2 = views(64, 32)
    assert z1.shape == (64, 32)
    for z in (z1, z2):
        assert z.std(dim=0).min() < 1 < z.std(dim=0).max()
        assert z.mean(dim=0).norm() > 0.5
        correlation = torch.corrcoef(z.T)
        assert (correlation - correlation.diag().diag()).abs().max() > 0.3
    assert 0 < (z1 - z2).square().mean() < z1.var()


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


def test_a_missing_package_is_not_installed_and_a_broken_one_does_not_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_losses.py").write_text("raise RuntimeError('no GPU\\nat all')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(ddp_losses.MODULES, "missing", "no_such_module")
    monkeypatch.setitem(ddp_losses.MODULES, "broken", "broken_losses")
    missing = _entry(None, package="missing", requires="no_such_module.losses")
    broken = _entry(None, package="broken", requires="broken_losses")
    assert ddp_losses.unavailable(missing) == "not installed"
    assert ddp_losses.version("missing") is None
    assert ddp_losses.unavailable(broken) == "does not import: RuntimeError: no GPU"
    assert ddp_losses.unavailable(_entry(None)) is None


def test_rows_without_figures_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = iter(["not installed", None])
    monkeypatch.setattr(ddp_conformance, "unavailable", lambda entry: next(reasons))
    seen = [{(1, 16, 32): tuple(call(_mean_of_squares, views(8, 32), seed=0))}, {(1, 16, 32): "RuntimeError: no"}]
    monkeypatch.setattr(ddp_conformance, "several_processes", lambda numbers, *_: seen if numbers == [1] else None)
    rows = ddp_conformance.compare([0, 1], [(16, 32)], processes=2)
    assert [row["problem"] for row in rows] == ["not installed", "fails: RuntimeError: no"]
    first, second = ddp_conformance.table(rows, [(16, 32)]).splitlines()[2:]
    assert "| not installed |" in " ".join(first.split())
    assert "| fails: RuntimeError: no |" in " ".join(second.split())
    assert first.count("|") == second.count("|")


def test_only_what_stands_between_the_marks_of_a_page_is_replaced() -> None:
    start, end = ddp_conformance.START, ddp_conformance.END
    page = f"before\n{start}\nold\n{end}\nafter\n"
    assert ddp_conformance.with_table(page, "new") == f"before\n{start}\nnew\n{end}\nafter\n"
    for wrong in ("no marks", f"{end}\n{start}", page + page):
        with pytest.raises(ValueError, match="one line"):
            ddp_conformance.with_table(wrong, "new")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--processes", "1"], "at least 2"),
        (["--sizes", "33x8"], "33 rows are not an equal number of 2 or more for 2 processes"),
        (["--sizes", "2x8"], "2 rows"),
        (["--page", "no_such_page.md"], "no_such_page.md"),
    ],
)
def test_wrong_options_end_before_anything_is_measured(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ddp_conformance.main(options)
    assert message in capsys.readouterr().err


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
