"""Where a report is written: into an empty folder or over an earlier report, and over nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import one_line

from radial_vicreg.cli import main
from radial_vicreg.errors import UserError
from radial_vicreg.io.outputs import OutputFolder
from radial_vicreg.report import build
from radial_vicreg.report.captioned import CaptionedFigure

MARKER = "radial_vicreg_report.json"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def report(make_run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a report of one run, with a figure that is not drawn; returns its folder."""
    monkeypatch.setattr("radial_vicreg.paper.report.draw_all", lambda _: [CaptionedFigure("curves", object(), "drawn")])
    monkeypatch.setattr(build, "build_page", lambda title, *_: f"<html><title>{title}</title></html>")
    figures = {f"figures/curves{suffix}": suffix.encode() for suffix in (".png", ".svg")}
    monkeypatch.setattr(build, "figure_files", lambda *_: figures)
    make_run(top1=61.0)
    (tmp_path / "out").mkdir()

    def write(*words: str, out: Path = tmp_path / "out") -> Path:
        assert main(["report", str(tmp_path / "runs"), "--out", str(out), *words]) == 0
        return out

    return write


def refused(out: Path, capsys: pytest.CaptureFixture[str], *words: str) -> None:
    before = contents(out)
    capsys.readouterr()
    assert main(["report", str(out.parent / "runs"), "--out", str(out)]) == 2
    one_line(capsys.readouterr().err, *words)
    assert contents(out) == before


def test_the_folder_of_a_project_is_refused_and_keeps_its_files(
    report: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("differences.csv", "differences.md", "report.md", "table1.csv"):
        (project / name).write_text("mine")
    refused(project, capsys, "project contains files that `radial-vicreg report` did not write (differences.csv, ")
    monkeypatch.chdir(project)
    before = contents(project)
    assert main(["report", str(tmp_path / "runs"), "--out", "."]) == 2
    assert contents(project) == before


def test_the_marker_lists_names_and_hashes_and_only_what_it_lists_is_removed(
    report: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = report("--against", "radial_kl")
    listed = json.loads((out / MARKER).read_text())["files"]
    assert {*listed, MARKER} == set(contents(out))
    assert all(len(digests) == 1 and len(digests[0]) == 64 for digests in listed.values())
    for name in ("note.txt", "figures/mine.png", "differences.txt"):
        (out / name).write_text("mine")
    assert (out / "differences.csv").is_file()
    assert (out / "figures" / "curves.png").is_file()
    monkeypatch.setattr("radial_vicreg.paper.report.draw_all", lambda _: [])
    report()
    assert not (out / "differences.csv").exists()
    assert not list((out / "figures").glob("curves.*"))
    assert [(out / name).read_text() for name in ("note.txt", "figures/mine.png", "differences.txt")] == ["mine"] * 3


def change(out: Path) -> str:
    (out / "table1.tex").write_text("edited")
    return "table1.tex has changed since `radial-vicreg report` wrote it"


def link(out: Path) -> str:
    (out / "table1.md").rename(out.parent / "table1.md")
    (out / "table1.md").symlink_to(out.parent / "table1.md")
    return "table1.md is a link, which `radial-vicreg report` does not follow"


def link_folder(out: Path) -> str:
    (out / "figures").rename(out.parent / "figures")
    (out / "figures").symlink_to(out.parent / "figures")
    return "figures is a link"


def damage_the_marker(out: Path) -> str:
    (out / MARKER).write_text('{"files": {"../runs/0000/results.json": []}}')
    return f"{MARKER} is not a file of `radial-vicreg report`"


@pytest.mark.parametrize("spoil", [change, link, link_folder, damage_the_marker])
def test_changed_or_linked_files_are_refused_by_name(
    spoil: Callable[[Path], str], report: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    out = report()
    refused(out, capsys, f"{out}/{spoil(out)}", "move it away")


def test_a_linked_folder_and_hidden_files_are_no_hindrance(report: Callable, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / ".gitkeep").touch()
    (tmp_path / "linked").symlink_to(tmp_path / "disk")
    report(out=tmp_path / "linked")
    report(out=tmp_path / "linked")
    assert (tmp_path / "disk" / "report.html").is_file()


def test_a_folder_of_0_2_is_recognised_and_nothing_of_it_is_lost(report: Callable, tmp_path: Path) -> None:
    out = report("--against", "radial_kl")
    (out / MARKER).unlink()  # as 0.2 has left it, and its user edited it
    (out / "report.md").write_text(f"# {build._TITLE}\n")  # which 0.2 wrote, too
    (out / "table1.tex").write_text("edited")
    (out / "note.txt").write_text("mine")
    before = contents(out)
    report()
    (aside,) = out.glob("replaced-*")
    moved = contents(aside)
    assert moved == {name: content for name, content in before.items() if name != "note.txt"}
    assert (out / "note.txt").read_text() == "mine"
    assert not (out / "differences.csv").exists()
    report()
    assert contents(aside) == moved


def test_a_report_that_was_killed_half_way_is_written_again(
    report: Callable, make_run: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for start in ("empty", "written"):
        out = report(out=tmp_path / start) if start == "written" else tmp_path / start
        make_run(top1=62.0, seed=6)
        real = OutputFolder._place

        def killed(self: OutputFolder, name: str, real: Callable = real) -> Path:
            if name == "table1.md" and (self.path / ".now").exists():
                raise KeyboardInterrupt
            return real(self, name)

        out.mkdir(exist_ok=True)
        (out / ".now").touch()
        with monkeypatch.context() as patch:
            patch.setattr(OutputFolder, "_place", killed)
            assert main(["report", str(tmp_path / "runs"), "--out", str(out)]) == 130
        (out / ".now").unlink()
        report(out=out)
        assert {*json.loads((out / MARKER).read_text())["files"], MARKER} == set(contents(out))


def test_two_reports_at_once_are_whole_and_one_after_the_other(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def write(number: int) -> None:
        OutputFolder(tmp_path / "out", "report", alone=True).write(
            {f"{name}.md": f"{number}".encode() for name in "abcdef"}
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    found = contents(tmp_path / "out")
    assert len({found[f"{name}.md"] for name in "abcdef"}) == 1
    OutputFolder(tmp_path / "out", "report", alone=True).claim()


def test_what_appears_while_runs_are_read_is_refused(tmp_path: Path) -> None:
    folder = OutputFolder(tmp_path, "report", alone=True).claim()
    (tmp_path / "report.md").write_text("mine")
    with pytest.raises(UserError, match=r"did not write \(report.md\)"):
        folder.write({"report.md": b"ours"})
    assert (tmp_path / "report.md").read_text() == "mine"
