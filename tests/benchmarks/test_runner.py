"""The benchmark runner and the cost model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import runner, scaling
from radial_vicreg.losses._statistics import view_statistics


def test_contestants_take_turns_and_a_quick_one_has_more_samples_in_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, seen = {"a": 1.0, "b": 3.1}, []
    monkeypatch.setattr(runner, "_timed", lambda call, *_: (seen.append(call()), seconds[seen[-1]])[1])
    contestants = {name: lambda name=name: name for name in seconds}
    times = runner.compare(contestants, repeats=4, warmup=1)
    assert [timing.samples for timing in times.values()] == [12, 4]
    assert "".join(seen).endswith(4 * "aaab")
    assert runner.compare({"a": lambda: "a"}, repeats=100, seconds=0.0)["a"].samples == 2


def test_results_are_json_and_markdown_of_this_machine(tmp_path: Path) -> None:
    table = runner.markdown_table(["x", "long name"], [[1, "a"]])
    path = runner.save("trial", "A trial", {"Table": table}, {"rows": [1]}, folder=tmp_path)
    assert path.name == f"trial-{runner.slug()}.json"
    assert json.loads(path.read_text())["rows"] == [1]
    assert "| 1 | a         |" in path.with_suffix(".md").read_text()


@pytest.mark.slow  # the profiler takes seconds to start
def test_peak_memory_counts_what_is_held_at_a_time() -> None:
    x = torch.ones(1000, 1000)

    def one_after_the_other() -> torch.Tensor:
        first = x + 1
        second = first * 2
        del first
        return second - 1

    assert runner.peak_extra_bytes(one_after_the_other) == pytest.approx(2 * x.nbytes, rel=0.01)


@pytest.mark.parametrize("dim", [512, 2048, 8192])
def test_the_chosen_way_has_the_fewest_operations_and_at_most_twice_the_bytes(dim: int) -> None:
    for gpus in scaling.GPUS[1:]:
        ways = {"exchange": scaling.exchange(gpus, 256, dim), "reduce": scaling.reduce(gpus, 256, dim)}
        taken = ways[scaling.chosen(gpus, 256, dim)]
        assert taken.flops == min(cost.flops for cost in ways.values())
        assert taken.bytes <= 2.01 * min(cost.bytes for cost in ways.values())


@pytest.mark.parametrize(("rows", "dim"), [(1024, 128), (128, 1024)])
def test_the_model_s_memory_is_that_of_a_forward_pass(rows: int, dim: int) -> None:
    views = tuple(torch.randn(rows, dim, requires_grad=True) for _ in range(2))
    found = runner.peak_extra_bytes(lambda: view_statistics(views, gather=False, center=False))
    way = getattr(scaling, scaling.chosen(1, rows, dim))
    gathered = 2 * rows * dim * 4 if way is scaling.exchange else 0  # one process has its batch without gathering
    assert found == pytest.approx(way(1, rows, dim).memory - gathered, rel=0.05)
