from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radial_vicreg.io.files import DiskFullError
from radial_vicreg.io.locks import LockedError
from radial_vicreg.paper.synthetic.best_settings import best_settings, summary_lines, winners_on_other_seeds
from radial_vicreg.paper.synthetic.figure1 import PUBLISHED
from radial_vicreg.paper.synthetic.run import note, run, summarise
from radial_vicreg.paper.synthetic.settings import SyntheticConfig
from radial_vicreg.paper.synthetic.sweep import PRESETS, Grid, ResultsFile, read_rows, sweep

SMALL = Grid(
    SyntheticConfig(distribution="mixture", num_samples=60, steps=50),
    {"alpha": (0.25, 0.99), "lr": (0.005, 0.02), "beta1": (0.0, 1.0), "beta2": (0.0, 1.0)},
    subsample=40,
)
FILE = "results-0-of-1.jsonl"


def swept(runs: list[SyntheticConfig], folder: Path, **options: Any) -> list[dict]:
    return sweep(runs, folder, subsample=40, **{"workers": 1, **options})


def comparable(rows: list[dict]) -> dict[str, dict]:
    """Rows by key, without times and without the last bits of sums, which go with an array's place in memory."""
    rows = json.loads(json.dumps(rows), parse_float=lambda digits: round(float(digits), 12))
    return {row["key"]: {name: value for name, value in row.items() if name != "seconds"} for row in rows}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return swept(SMALL.runs(), tmp_path_factory.mktemp("sweep"))


def test_the_full_preset_is_the_papers_sweep() -> None:
    grid, runs = PRESETS["full"], PRESETS["full"].runs()
    assert len(runs) == len({config.key for config in runs}) == 5625
    assert (grid.base.num_samples, grid.base.steps) == (10_000, 200_000)
    paper = resources.files("radial_vicreg").joinpath("paper/paper.json")
    stated = json.loads(paper.read_text())["sweeps"]["synthetic"]
    assert {name: list(values) for name, values in grid.axes.items()} == {
        name: values for name, values in stated.items() if name != "runs"
    }


def test_the_quick_preset_keeps_the_settings_that_matter_and_the_step_of_the_paper() -> None:
    full, quick = PRESETS["full"].base, PRESETS["quick"]
    assert quick.axes["alpha"] == PRESETS["full"].axes["alpha"]
    published = {name: value for name, value in PUBLISHED.items() if name != "schedule"}
    assert all(value in quick.axes[name] for name, value in published.items())
    # Spacings go with m / N, the entropy's gradient with 1 / m, its curvature with N / m^2, all else with 1 / N.
    (lr,) = quick.axes["lr"]
    assert quick.base.steps == full.steps
    assert quick.base.m / quick.base.num_samples == full.spacing(full.num_samples) / full.num_samples
    assert lr / quick.base.num_samples == full.lr / full.num_samples
    assert len(quick.axes["seed"]) >= 3


def test_shards_add_up_and_a_second_sweep_makes_nothing_again(made: list[dict], tmp_path: Path) -> None:
    assert [row["key"] for row in made] == [config.key for config in SMALL.runs()]
    assert all(SyntheticConfig(**row["config"]).key == row["key"] for row in made)
    parts = [swept(SMALL.runs(), tmp_path, shard=(i, 3)) for i in range(3)]
    assert sum(map(len, parts)) == len(made)
    assert comparable(read_rows(tmp_path)) == comparable(made)
    assert comparable(swept(SMALL.runs(), tmp_path)) == comparable(made)
    assert (tmp_path / FILE).read_bytes() == b""


@pytest.mark.slow
def test_processes_and_the_batched_engine_give_the_same_rows(made: list[dict], tmp_path: Path) -> None:
    runs, expected = SMALL.runs()[:6], comparable(made)
    for row in swept(runs, tmp_path / "processes", workers=2):
        assert comparable([row])[row["key"]] == expected[row["key"]]
    for row in swept(runs, tmp_path / "batched", device="cpu:0", batch=4):
        assert row["after"]["w2_exact"] == pytest.approx(expected[row["key"]]["after"]["w2_exact"], rel=1e-6)


def test_rows_that_are_written_in_parts_are_whole(tmp_path: Path, short_writes: list[int]) -> None:
    rows = swept(SMALL.runs()[:3], tmp_path)
    assert len(short_writes) > 3
    assert read_rows(tmp_path) == rows


def test_a_row_that_cannot_be_written_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, told = SMALL.runs()[:3], []
    swept(runs[:1], tmp_path)
    first = (tmp_path / FILE).read_bytes()
    real = os.write

    def full(descriptor: int, content: bytes) -> int:
        if len(content) < 100:  # what the system has not taken of the row
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content[:-50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DiskFullError, match=r"results-0-of-1\.jsonl .*free some space, then repeat the command"):
            swept(runs, tmp_path, on_row=lambda done, *_: told.append(done))
    assert told == [1]  # the second is not reported as done
    assert (tmp_path / FILE).read_bytes() == first
    assert [row["key"] for row in swept(runs, tmp_path)] == [run.key for run in runs]
    assert len(read_rows(tmp_path)) == 3


STRANGE: list[dict[str, dict[str, Any]]] = [
    *({"config": {name: value}} for name, value in (("steps", 10**400), ("lr", float("nan")), ("nosuch", 1))),
    {"config": {"distribution": "$\\nosuch$"}},
    *({"after": {"w2_exact": value}} for value in (10**400, float("nan"), [1])),
    {"before": {"w2_exact": "far"}},
]
CUT = [b'{"key": "a", "config"', b"\0\0\0", b"\xff{}", b"[]", b'{"key": 3, "config": {}}', b"", b"1" * 5000]


def test_lines_that_no_run_writes_are_named_and_no_other_is_lost(made: list[dict], tmp_path: Path) -> None:
    strange = [{**made[1], **{k: {**made[1][k], **values} for k, values in change.items()}} for change in STRANGE]
    path = tmp_path / FILE
    for line in (*(json.dumps(row).encode() for row in strange), *CUT):
        path.write_bytes(b"\n".join((json.dumps(made[0]).encode(), line, json.dumps(made[2]).encode(), b"")))
        with pytest.warns(UserWarning, match=rf"line 2 of {path} is damaged .* and ignored"):
            assert len(read_rows(tmp_path)) == 2, line


@pytest.mark.parametrize("damage", ["cut", "encoding", "joined"])
def test_the_run_of_a_damaged_line_is_made_again(damage: str, made: list[dict], tmp_path: Path) -> None:
    first, second, third = (json.dumps(row).encode() + b"\n" for row in made[:3])
    damaged = {"cut": CUT[0] + b"\n", "encoding": CUT[2] + b"\n", "joined": second[: len(second) // 2]}[damage]
    path = tmp_path / FILE
    path.write_bytes(first + damaged + third)  # joined with the next line, as versions before left it
    with pytest.warns(UserWarning, match=rf"line 2 of {path} is damaged .* and removed: its run is missing"):
        rows = swept(SMALL.runs()[:3], tmp_path)
    assert comparable(rows) == comparable(made[:3])
    assert path.read_bytes().startswith(first)
    assert path.read_bytes().count(b"\n") == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert comparable(read_rows(tmp_path)) == comparable(made[:3])


def test_a_damaged_line_of_another_shard_is_named_and_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "results-1-of-2.jsonl"
    other.write_bytes(b"torn\n")
    with pytest.warns(UserWarning, match=f"line 1 of {other} is damaged .* and ignored"):
        swept(SMALL.runs()[:2], tmp_path, shard=(0, 2))
    assert other.read_bytes() == b"torn\n"


def goes_on(path: Path, made: list[dict]) -> None:
    """Cut a file of some rows off in a line, and check that a sweep loses and repeats none of them."""
    survived = path.read_text()
    path.write_text(survived + '{"key": "torn')  # what a kill in the middle of a write leaves
    rows = swept(SMALL.runs(), path.parent)
    assert path.read_text().startswith(survived)
    assert path.read_text().count("\n") == len(made)
    assert comparable(rows) == comparable(made)


def test_a_sweep_that_was_cut_off_in_a_line_goes_on(made: list[dict], tmp_path: Path) -> None:
    swept(SMALL.runs()[:5], tmp_path)
    goes_on(tmp_path / FILE, made)


@pytest.mark.slow
def test_a_sweep_killed_at_any_moment_resumes_with_nothing_lost_or_repeated(made: list[dict], tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; import test_synthetic_sweep as t\n"
        "t.swept(t.SMALL.runs(), Path(sys.argv[1]), on_row=lambda *row: print(*row[:2], flush=True))"
    )
    arguments = [sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("5 "):
                process.send_signal(signal.SIGKILL)
                break
    assert 5 <= (tmp_path / FILE).read_text().count("\n") < len(made)
    goes_on(tmp_path / FILE, made)


def test_two_sweeps_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / FILE
    with ResultsFile(path), pytest.raises(LockedError, match=r"is writing .*--shard"), ResultsFile(path):
        pass


def test_a_diverging_run_is_recorded_and_does_not_stop_the_sweep(tmp_path: Path) -> None:
    base = replace(SMALL.base, beta2=0.0)
    told: list[tuple[int, int, bool]] = []
    rows = swept(
        [replace(base, lr=1e4), base],
        tmp_path,
        on_row=lambda done, total, row: told.append((done, total, row is None)),
    )
    assert rows[0]["diverged_at"] is not None
    assert rows[0]["after"] is None
    assert rows[1]["diverged_at"] is None
    assert "1 diverged" in summary_lines(rows)[-1]
    assert told == [(0, 2, True), (1, 2, False), (2, 2, False)]


def row_of(value: float | None, **config: Any) -> dict:
    """A row with this distance after the run; None of a run that diverged."""
    return {
        "config": vars(replace(SMALL.base, **config)),
        "before": {"w2_exact": 0.6},
        "after": None if value is None else {"w2_exact": value},
        "diverged_at": 7 if value is None else None,
        "hardly_moved": False,
    }


def test_best_setting_is_the_lowest_mean_over_seeds_without_diverged_ones() -> None:
    by_beta1 = {1: (0.1, 0.9), 2: (0.4, 0.4), 3: (0.0, None), 0: (1,)}
    rows = [
        row_of(value, beta1=beta1, beta2=0.0, seed=seed)
        for beta1, values in by_beta1.items()
        for seed, value in enumerate(values)
    ]
    best = best_settings(rows)
    assert best[1.0, "radial_vcreg"].beta1 == 2
    assert best[1.0, "vcreg"].beta1 == 0


def test_a_minimum_over_settings_is_held_against_the_same_setting_on_other_seeds() -> None:
    by_beta1 = {1.0: (0.1, 0.9, 0.8), 2.0: (0.5, 0.4, None)}
    rows = [row_of(v, beta1=beta1, seed=seed) for beta1, values in by_beta1.items() for seed, v in enumerate(values)]
    # Seed 0 chooses beta1 = 1 (elsewhere 0.9, 0.8), seed 1 chooses 2 (0.5, diverged), seed 2 chooses 1 (0.1, 0.9).
    least, elsewhere, diverged = winners_on_other_seeds(rows)[1.0]
    assert least == pytest.approx((0.1 + 0.4 + 0.8) / 3)
    assert elsewhere == pytest.approx((0.9 + 0.8 + 0.5 + 0.1 + 0.9) / 5)
    assert diverged == pytest.approx(1 / 6)
    assert winners_on_other_seeds([row for row in rows if row["config"]["seed"] == 0]) == {}


def test_the_summary_counts_the_published_weights_with_their_diverged_runs() -> None:
    rows = [row_of(None if seed == 1 else 0.25, **PUBLISHED, seed=seed) for seed in range(3)]
    assert any("0.250 [0.250, 0.250]" in line and "1/3 diverged" in line for line in summary_lines(rows))
    others = [{**row, "config": {**row["config"], "beta1": 1.0}} for row in rows]
    assert not any("Published" in line for line in summary_lines(others))


def test_rows_of_a_former_definition_are_found_under_its_new_name(tmp_path: Path) -> None:
    """The first release's stretched sunshine had variances of 4 and 1/4, which is the elongated one now."""
    base = replace(SMALL.base, alpha=1.0)
    elongated, stretched = (replace(base, distribution=f"{name}_sunshine") for name in ("elongated", "stretched"))
    row = swept([elongated], tmp_path / "made")[0]
    config = asdict(stretched)
    former_key = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]
    former = {**row, "config": config, "key": former_key}
    del former["definition"]
    (tmp_path / FILE).write_text(json.dumps(former) + "\n")
    assert stretched.key != former_key
    (read,) = read_rows(tmp_path)
    assert SyntheticConfig(**read["config"]) == elongated
    assert read["key"] == elongated.key
    both = swept([elongated, stretched], tmp_path)
    assert both[0]["seconds"] == row["seconds"]  # found, not made again
    assert both[1]["before"] != both[0]["before"]
    assert comparable(read_rows(tmp_path)) == comparable([read, both[1]])


def test_keys_of_the_other_distributions_are_those_of_the_first_release() -> None:
    assert SyntheticConfig().key == "a7983306fd715a31"
    assert SyntheticConfig(distribution="sunshine").key == "0668f5a882e3dee0"


def test_a_run_records_its_way_and_summarises_it() -> None:
    config = SyntheticConfig(num_samples=200, steps=300, lr=0.05)
    seen: list[int] = []
    result = run(config, snapshots=3, records=10, progress=lambda step, terms: seen.append(step))
    assert [step for step, _ in result.snapshots] == [0, 100, 200, 300]
    assert seen == sorted({*range(0, 301, 30), 100, 200})
    assert [row["step"] for row in result.history] == seen
    summary = summarise(result, subsample=100)
    assert summary["after"]["w1_chi"] < summary["before"]["w1_chi"]
    assert not summary["hardly_moved"]
    whole = run(config, snapshots=1, records=1)
    np.testing.assert_array_equal(whole.end, result.end)
    batched = run(config, device="cpu:0", snapshots=3, records=10)
    np.testing.assert_allclose(batched.end, result.end, atol=1e-9)


def test_a_run_that_hardly_moves_or_diverges_says_so() -> None:
    summary = summarise(run(SyntheticConfig(num_samples=100, steps=50, lr=1e-6), records=1), subsample=50)
    assert summary["hardly_moved"]
    assert "Gradients are means over 100 points" in summary["note"]
    assert "diverged at step 7" in note(SyntheticConfig(), 1.0, 7)
    result = run(SyntheticConfig(num_samples=50, steps=100, lr=1e4, beta2=0.0), snapshots=10)
    assert result.diverged_at is not None
    assert np.isfinite(result.end).all()  # the last finite snapshot
    assert summarise(result, subsample=20)["after"] is None
