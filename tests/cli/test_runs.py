"""Runs are listed, compared, found by a folder above them or by ``latest``, and may have a word of one's own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from configs import make_config
from helpers import HOSTS_SOLO_SLOW, composed, one_line, read_results, write_finished_run
from omegaconf import OmegaConf
from terminals import in_terminal

from radial_vicreg import cli
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import point_link, write_json
from radial_vicreg.report.collect import collect, group
from radial_vicreg.report.experiments import experiment_csv, experiment_rows
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runs.provenance import describe_run
from radial_vicreg.runs.stored import LATEST, single_run, stored_runs
from radial_vicreg.runs.summaries import age

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Writes ``runs/NAME/results.json``: overrides are positional, keyword arguments further content."""

    def make(name: str, *overrides: str, hours: float = 1, **content: Any) -> Path:
        config: Any = OmegaConf.to_container(composed("radialvicreg", *overrides), resolve=True)
        began = datetime.now(timezone.utc) - timedelta(hours=hours, minutes=1)
        radii = {"final": {"dim": 512, "eval": {"w1_chi": 0.256, "radius_mean": 22.6}, "histogram": None}}
        results = {
            **describe_run(config, "standalone"),
            **{"status": "finished", "epochs": 400, "max_epochs": 400, "steps": 78000, "seconds": 1.5},
            **{"started": began.isoformat(timespec="seconds"), "radii": radii},
            "probes": {"online_linear": {"top1": 61.234, "top5": None}},
            **content,
        }
        write_json(tmp_path / "runs" / name / "results.json", results)
        return tmp_path / "runs" / name

    return make


@pytest.fixture
def three(make_run: MakeRun, tmp_path: Path) -> list[str]:
    """Runs of several kinds, one of another method, and what is no run; their folders in the order of their starts."""
    names = ["vicreg/a", "radial/b", "theirs/c"]
    make_run("radial/b", "tag=pilot", hours=30)
    make_run("vicreg/a", "radialvicreg/method=vicreg", hours=24 * 9)
    theirs = make_run("theirs/c", hours=2, status="running", epochs=3, radii={}, probes=None)
    content = read_results(theirs)
    content["method"] = content["config"]["method"] = "lejepa"
    content["config"]["method_kwargs"]["proj_output_dim"] = 64
    content["config"]["loss"] = {"_target_": "lightly.loss.LeJEPALoss"}
    write_json(theirs / "results.json", content)
    write_json(tmp_path / "runs" / "synthetic" / "results.json", {"version": "1"})
    (tmp_path / "runs" / "half").mkdir()
    (tmp_path / "runs" / "half" / "results.json").write_text("{")
    point_link(tmp_path / "runs" / LATEST, theirs)
    return [str(Path("runs") / name) for name in names]


def test_the_newest_run_is_the_last_line(
    three: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["runs"]) == 0
    header, *lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert header == ["run", "status", "method", "objective", "d", "epochs", "W1", "probe", "age", "tag"]
    assert lines == [
        [three[0], "finished", "vicreg", "none", "512", "400/400", "0.26", "61.2", "9", "d"],
        [three[1], "finished", "radialvicreg", "kl", "512", "400/400", "0.26", "61.2", "1", "d", "pilot"],
        [three[2], "running", "lejepa", "64", "3/400", "2", "h"],
    ]


def test_programs_get_json(three: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", str(tmp_path / "runs"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["run"] for one in found] == [str(tmp_path / name) for name in three]
    assert found[1].items() >= {"tag": "pilot", "objective": "kl", "w1": 0.256, "probe": 61.234, "dim": 512}.items()
    assert found[2]["objective"] is found[2]["w1"] is found[2]["probe"] is None


def test_a_terminal_shows_every_figure_whole(three: list[str], tmp_path: Path) -> None:
    columns = 60
    lines = [line for line in in_terminal(["runs"], columns, tmp_path) if not line.startswith("not listed: ")]
    assert max(map(len, lines)) <= columns
    text = " ".join(" ".join(lines).split())
    for words in (*three, "radialvicreg", "61.2", "W1 0.26", "400/400", "9 d", "pilot", "lejepa"):
        assert words in text


def test_a_folder_without_runs_and_one_without_doubts_are_no_errors(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("one")
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        (["empty"], f"no runs below {tmp_path}/empty\n"),
        (["empty", "--json"], "[]\n"),
        (["runs", "--check"], f"1 run below {tmp_path}/runs, none needs attention\n"),
    ):
        assert cli.main(["runs", str(tmp_path / arguments[0]), *arguments[1:]]) == 0
        assert capsys.readouterr().out == said


def test_an_age_is_in_one_unit() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    for hours, text in ((0.001, "now"), (0.5, "30 min"), (5.9, "5 h"), (49, "2 d"), (24 * 400, "400 d")):
        assert age((now - timedelta(hours=hours)).isoformat(), now) == text
    assert age("yesterday") == age("") == ""


def test_two_runs_are_compared_by_what_differs_alone(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    first = make_run("a", "method_kwargs.sim_loss_weight=25.0", seed=5)
    second = make_run("b", "optimizer.lr=0.1", "method_kwargs.sim_loss_weight=25", status="failed", error="it broke")
    content = read_results(second)
    del content["config"]["accumulate_grad_batches"]  # its default
    content["radii"]["final"]["eval"]["w1_chi"] = 7.0
    content["history"] = [{"epoch": 1, "train_loss": 3.0}]
    write_json(second / "results.json", content)
    assert cli.main(["compare", str(first), str(second), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found["first"], found["second"]] == [str(first), str(second)]
    assert found["differences"] == [
        {"part": "configuration", "key": "optimizer.lr", "first": 0.3, "second": 0.1},
        {"part": "results", "key": "status", "first": "finished", "second": "failed"},
        {"part": "results", "key": "radii.final.eval.w1_chi", "first": 0.256, "second": 7.0},
        {"part": "results", "key": "error", "first": None, "second": "it broke"},
    ]


def test_equal_runs_have_no_difference(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(name) for name in "ab"]
    none = ["", "configuration: no difference", "", "results: no difference"]
    assert cli.main(["compare", *map(str, runs)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == none
    content = read_results(runs[1])
    content["config"]["compile"] = True  # as earlier versions took it: no setting, and nothing reads it
    write_json(runs[1] / "results.json", content)
    assert cli.main(["compare", *map(str, runs)]) == 0
    more = ["", "no settings  A  B", "compile      -  true"]
    assert capsys.readouterr().out.splitlines()[2:] == [*none[:2], *more, *none[2:]]


def test_a_comparison_with_what_is_no_run_is_one_line(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, _ = make_run("a"), make_run("b")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.json").write_text("{")
    for arguments, said in (
        ([tmp_path / "gone", run], "gone contains no run with results.json"),
        ([run, tmp_path / "broken"], "cut short or not JSON"),
        ([tmp_path / "runs", run], "runs contains 2 runs, give one of them: "),
    ):
        assert cli.main(["compare", *map(str, arguments)]) == 2
        one_line(capsys.readouterr().err, said)


class TestFolderAboveARun:
    @pytest.fixture
    def run(self, tmp_path: Path, tiny_overrides: list[str]) -> Path:
        folder = write_finished_run(tmp_path / "out" / "radialvicreg" / "1", composed("radialvicreg", *tiny_overrides))
        write_json(folder / "export" / "torchvision" / "card.json", {})
        return folder

    def test_it_stands_for_the_run_and_a_link_is_followed_at_once(self, run: Path) -> None:
        for path in (run, run.parent, run.parents[1]):
            assert single_run(path) == run
            assert open_run(path).folder == run
        checkpoint = run / "checkpoints" / "last.ckpt"
        assert single_run(checkpoint) == checkpoint
        link = run.parents[1] / LATEST
        assert point_link(link, run)
        opened = open_run(link)
        link.unlink()
        assert opened.folder == run
        assert opened.folder.is_dir()

    def test_export_and_probe_take_it(self, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert cli.main(["export", str(run.parents[1]), "--format", "timm"]) == 0
        assert str(run / "export" / "timm") in capsys.readouterr().out
        assert cli.main(["probe", str(run.parent), "--workers", "0"]) == 0
        assert str(run / "probes" / "linear-encoder.json") in capsys.readouterr().out

    def test_above_several_runs_it_is_an_error_that_names_them(
        self, make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runs = [make_run(f"a/{number}") for number in range(7)]
        (tmp_path / "runs" / "solo").mkdir()
        (tmp_path / "runs" / "solo" / "args.json").write_text("{}")
        for command in ("probe", "export"):
            assert cli.main([command, str(tmp_path / "runs")]) == 2
            named = ", ".join(map(str, runs[:5]))
            one_line(capsys.readouterr().err, f"contains 8 runs, give one of them: {named} and 3 more")


class TestLatest:
    @pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
    def test_it_leads_to_the_run_and_is_no_run_of_its_own(self, host: str, finished_run: Callable[[str], Path]) -> None:
        run = finished_run(host)
        latest = run.parents[1] / LATEST
        assert os.readlink(latest) == str(run.relative_to(latest.parent))  # the folder can be moved
        assert [found.folder for found in stored_runs(latest.parent)] == [run]
        assert not [file.name for file in latest.parent.iterdir() if file.name.endswith(".tmp")]

    def test_only_a_link_is_replaced_and_a_run_elsewhere_is_named_from_the_root(self, tmp_path: Path) -> None:
        latest, elsewhere = tmp_path / "runs" / LATEST, tmp_path / "elsewhere"
        for folder in (latest.parent, elsewhere):
            folder.mkdir()
        latest.symlink_to("gone")
        assert point_link(latest, elsewhere)
        assert os.readlink(latest) == str(elsewhere)
        (tmp_path / "file").write_text("mine")
        for place in (tmp_path / "file", elsewhere):
            assert not point_link(place, tmp_path)
            assert not place.is_symlink()
            assert place.exists()


def move(folder: Path, elsewhere: Path) -> Path:
    """Move a folder to another disk, as it were, and leave a link where it was; gives the new place."""
    elsewhere.mkdir(exist_ok=True)
    moved = Path(shutil.move(folder, elsewhere / folder.name))
    folder.symlink_to(moved)
    return moved


class TestMoved:
    def test_lists_and_reports_follow_links_to_runs(
        self, make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runs = [make_run("a/1"), make_run("a/2", "seed=6"), make_run("b/3", "seed=7")]
        move(runs[0], tmp_path / "disk")
        move(runs[2].parent, tmp_path / "disk")
        assert cli.main(["runs", str(tmp_path / "runs"), "--json"]) == 0
        assert {one["run"] for one in json.loads(capsys.readouterr().out)} == set(map(str, runs))
        found, problems = collect(tmp_path / "runs")
        assert [run.path for run in found] == ["a/1/results.json", "a/2/results.json", "b/3/results.json"]
        assert problems == []
        assert single_run(tmp_path / "runs" / "b") == tmp_path / "disk" / "b" / "3"
        with pytest.raises(UserError, match=r"contains 3 runs, give one of them: .*a/1, .*a/2, .*b/3"):
            single_run(tmp_path / "runs")

    def test_every_run_is_listed_once_whatever_leads_to_it(self, make_run: MakeRun, tmp_path: Path) -> None:
        near, far, outside = make_run("z/near"), make_run("y/far", "seed=6"), tmp_path / "outside"
        runs = tmp_path / "runs"
        disk = move(far, tmp_path / "disk")
        (runs / "alias").symlink_to(near)  # sorted before it, and before its folder
        (runs / "again").symlink_to(disk.parent)
        point_link(runs / LATEST, outside)  # never followed
        write_json(outside / "results.json", read_results(near))
        for ring in (near / "up", disk / "back", disk / "around"):
            ring.symlink_to(runs if ring.name != "around" else disk.parent)
        (runs / "above").symlink_to(tmp_path)  # a folder that it lies in: it leads to no other runs
        (runs / "gone").symlink_to(tmp_path / "nowhere")
        (runs / "itself").symlink_to(runs / "itself")
        assert {found.folder for found in stored_runs(runs)} == {near, runs / "again" / "far"}


class TestTag:
    def test_it_is_any_text_of_one_line_and_nothing_else(self) -> None:
        for given, read in ((7, "7"), (0.5, "0.5"), ("a/b", "a/b"), ("two words", "two words")):
            assert make_config(tag=given).tag == read
        for refused in ("", True, ["a"], {"a": 1}, " "):
            with pytest.raises(UserError, match=r"^tag must be a text of one line, or null, got "):
                make_config(tag=refused)

    def test_the_reports_list_of_experiments_shows_it(self, make_run: MakeRun, tmp_path: Path) -> None:
        for seed, tag in ((1, "pilot"), (2, "again")):
            make_run(str(seed), f"seed={seed}", f"tag={tag}")
        experiments, _ = group(collect(tmp_path / "runs")[0])
        header, (row,) = experiment_rows(experiments)
        assert row[header.index("Tag")][0].text == "again, pilot"
        assert "again, pilot" in experiment_csv(experiments)
        make_run("1", "seed=1")
        make_run("2", "seed=2")
        assert "Tag" not in experiment_rows(group(collect(tmp_path / "runs")[0])[0])[0]


class TestCheck:
    """``runs --check`` lists what release 0.2 merged or handed out, and recorded rates that were not trained with."""

    def check(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
        capsys.readouterr()
        status = cli.main(["runs", str(folder), "--check", "--json"])
        doubts = json.loads(capsys.readouterr().out)
        assert status == (1 if doubts else 0)
        return {Path(doubt["run"]).name: doubt["reason"] for doubt in doubts}

    def test_runs_that_release_0_2_merged_or_may_have_handed_out_are_named_with_what_differs(
        self, make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        weak, strong = ["+gradient_clip_val=5.0"], ["+gradient_clip_val=0.01", "seed=6"]
        old = {"radial-vicreg": "0.2.0"}
        make_run("weak", *weak, versions=old)
        make_run("strong", *strong, versions=old)
        make_run("apart", "optimizer.lr=0.7", versions=old)
        make_run("short", "+limit_train_batches=1", "optimizer.lr=0.1", versions=old)
        reasons = self.check(tmp_path, capsys)
        assert reasons.keys() == {"weak", "strong", "short"}
        assert "gradient_clip_val=5.0" in reasons["weak"]
        assert str(tmp_path / "runs" / "strong") in reasons["weak"]
        assert "may have returned it" in reasons["short"]
        assert "limit_train_batches=1 batches" in reasons["short"]
        for name in ("weak", "strong", "short"):  # the same runs of this version
            shutil.rmtree(tmp_path / "runs" / name)
        make_run("weak", *weak)
        make_run("strong", *strong)
        assert self.check(tmp_path, capsys) == {}

    def test_crops_that_an_old_lightning_repeated_are_named(
        self, make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        old, new, odd = ({"radial-vicreg": "0.3.0", "lightning": found} for found in ("2.6.0", "2.6.1", "mine"))
        workers, none = "data.num_workers=4", "data.num_workers=0"
        make_run("repeated", workers, versions=old)
        make_run("fixed", workers, versions=new)
        make_run("alone", none, "seed=6", versions=old)
        make_run("device", workers, "data.format=device", versions=old)
        write_json(make_run("script", workers, "seed=7", versions=old) / "args.json", {})
        make_run("odd", workers, "seed=8", versions=odd)
        reasons = self.check(tmp_path, capsys)
        assert reasons.keys() == {"repeated"}
        assert "Lightning 2.6.0 gave its workers (data.num_workers=4) the same random crops" in reasons["repeated"]

    def test_a_recorded_rate_that_was_not_trained_with_is_named(
        self, finished_run: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run = tmp_path / "run"
        shutil.copytree(finished_run("standalone"), run)
        assert self.check(tmp_path, capsys) == {}
        results = read_results(run)
        assert results["config"]["optimizer"]["lr"] != 0.001
        results["config"]["optimizer"]["lr"] = 0.001
        write_json(run / "results.json", results)
        assert "optimizer.lr=0.001" in self.check(tmp_path, capsys)["run"]
