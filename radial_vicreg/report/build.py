"""Build a folder of tables and figures from a folder of any runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from radial_vicreg.errors import UserError
from radial_vicreg.figures import figure_files, figure_style, method_styles
from radial_vicreg.io.outputs import OutputFolder
from radial_vicreg.names.counts import counted
from radial_vicreg.names.terms import METHOD_LABELS
from radial_vicreg.report.captioned import CaptionedFigure
from radial_vicreg.report.collect import Experiment, Problem, collect, group
from radial_vicreg.report.curves import training_curves
from radial_vicreg.report.differences import (
    Differences,
    difference_csv,
    difference_notes,
    difference_rows,
    differences,
)
from radial_vicreg.report.experiments import experiment_csv, experiment_notes, experiment_rows
from radial_vicreg.report.formats import Section, markdown_text, to_latex, to_markdown
from radial_vicreg.report.page import build_page

_TITLE = f"{METHOD_LABELS['radialvicreg']}: tables and figures from finished runs"
_FORMER = re.compile(  # files written by versions up to 0.2, which wrote no marker
    r"(table[1-4]|experiments|differences)\.(md|tex|csv)|figures/(figure[245]\w*|curves)\.(png|pdf|svg)|report\.(html|md)"
)

_BEGINNING = 400  # characters that are searched for the title of a report

Files = dict[str, bytes]
"""Contents of the report's files, by file name."""


@dataclass(frozen=True)
class Added:
    """A table in addition to the runs' own, such as a published table of a paper.

    Attributes:
        stem: file name without suffix.
        section: table on the HTML page.
        caption: caption in LaTeX.
        csv: the table as CSV, in full precision.
    """

    stem: str
    section: Section
    caption: str
    csv: str


@dataclass
class Report:
    """A report that was written.

    Attributes:
        out: folder of the report.
        summary: summary in one sentence.
        experiments: experiments that the tables show.
        problems: files that no table uses.
    """

    out: Path
    summary: str
    experiments: list[Experiment]
    problems: list[Problem]


def draw_curves(experiments: Sequence[Experiment]) -> list[CaptionedFigure]:
    """Plot the figures of every report: the training curves."""
    return [training_curves(experiments, method_styles(found.setting.key for found in experiments))]


def build_report(
    runs_dir: str | Path,
    out: str | Path,
    against: str | None = None,
    tables: Callable[[Sequence[Experiment]], Sequence[Added]] = lambda _: (),
    draw: Callable[[Sequence[Experiment]], list[CaptionedFigure]] = draw_curves,
) -> Report:
    """Write the list of experiments, their differences, tables, figures and ``report.html``.

    Args:
        runs_dir: folder of the runs; every ``results.json`` below it is read, and no other file.
        out: folder to write: an empty one, or that of an earlier report, whose files are replaced.
        against: the beginning of an experiment's hash, or a method, that all other experiments are compared with; see
            :func:`radial_vicreg.report.differences.differences`.
        tables: function that makes the additional tables of a publication.
        draw: function that makes the figures, called within :func:`radial_vicreg.figures.figure_style`.

    Returns:
        The report.

    Raises:
        UserError: ``runs_dir`` does not exist or has no finished run, ``against`` does not identify an experiment, or
            ``out`` is not writable or holds files that no report wrote or that were changed since. In this case,
            nothing is written.
    """
    target = OutputFolder(out, "report", _files_of_earlier_versions, alone=True).claim()
    runs, problems = collect(runs_dir)
    experiments, repeated = group(runs)
    problems = sorted([*problems, *repeated], key=lambda problem: problem.path)
    if not experiments:
        unused = f" (not used: {_kinds(problems)})" if problems else ""
        raise UserError(f"{runs_dir} contains no finished run{unused}; `radial-vicreg runs {runs_dir}` lists all runs")
    summary = _summary(experiments, problems)
    added = tables(experiments)
    compared = None if against is None else differences(experiments, against)
    files: Files = {}
    with figure_style():
        figures = draw(experiments)
        for drawn in figures:
            if drawn.figure is not None:
                files |= figure_files(drawn.figure, f"figures/{drawn.name}")
        sections = [_experiment_section(experiments, files)]
        sections += _difference_section(compared, files)
        sections += [_added_section(table, files) for table in added]
        files["report.html"] = build_page(_TITLE, summary, sections, figures, problems).encode()
    target.write(files)
    return Report(target.path, summary, experiments, problems)


def _added_section(table: Added, files: Files) -> Section:
    """Add a table to the files and return its section of the page."""
    _add_section(table.section, table.stem, table.csv, table.caption, files)
    return table.section


def _experiment_section(experiments: list[Experiment], files: Files) -> Section:
    header, body = experiment_rows(experiments)
    heading = "All experiments"
    caption = f"{heading} (mean ± standard deviation over n seeds; W1 to chi in evaluation mode)"
    files["experiments.csv"] = experiment_csv(experiments).encode()
    notes = experiment_notes(experiments)
    files["experiments.tex"] = to_latex(header, body, caption, "tab:experiments", notes).encode()
    files["experiments.md"] = f"{to_markdown(header, body)}\n{_bullets(notes)}".encode()
    return Section(caption, header, body, notes, heading=heading, named_by=_named_by(header))


def _difference_section(found: Differences | None, files: Files) -> list[Section]:
    """Add the differences to the files and return their section of the page."""
    if found is None:
        return []
    header, body = difference_rows(found)
    notes = difference_notes(found)
    named_by = _named_by(header)
    section = Section(found.caption, header, body, notes, bool(body), heading="Differences", named_by=named_by)
    _add_section(section, "differences", difference_csv(found), section.caption, files)
    return [section]


def _named_by(header: Sequence[str]) -> tuple[int, ...]:
    """Return the columns that name an experiment: its method, and its hash, which no other has."""
    return header.index("Method"), header.index("Experiment")


def _add_section(section: Section, stem: str, csv: str, caption: str, files: Files) -> None:
    header, body, notes = section.header, section.body, section.notes
    files[f"{stem}.csv"] = csv.encode()
    files[f"{stem}.tex"] = to_latex(header, body, caption, f"tab:{stem}", notes).encode()
    files[f"{stem}.md"] = f"{section.caption}\n\n{to_markdown(header, body)}\n{_bullets(notes)}".encode()


def _summary(experiments: Sequence[Experiment], problems: Sequence[Problem]) -> str:
    count = sum(len(experiment.runs) for experiment in experiments)
    found = f"{counted(count, 'finished run')} in {counted(len(experiments), 'experiment')}"
    return f"{found}; not used: {_kinds(problems) or 'nothing'}."


def _kinds(problems: Sequence[Problem]) -> str:
    """Count the files that no table uses by the kind of their problem."""
    left_out = Counter(problem.kind for problem in problems)
    return ", ".join(f"{number} {kind}" for kind, number in sorted(left_out.items()))


def _bullets(notes: Sequence[str]) -> str:
    return "".join(f"- {markdown_text(note)}\n" for note in notes)


def _files_of_earlier_versions(folder: Path) -> list[str]:
    """List the files of a report written by version 0.2 or earlier; empty for a folder without such a report."""
    begins = {"report.html": f"<title>{_TITLE}</title>", "report.md": f"# {_TITLE}\n"}
    if not all(_begins_with(folder / name, text) for name, text in begins.items()):
        return []
    files = [*folder.iterdir(), *(folder / "figures").glob("*")]
    names = [str(path.relative_to(folder)) for path in files]
    # The files that identify the folder come last, so that it is still recognised if moving is interrupted.
    return sorted(filter(_FORMER.fullmatch, names), key=lambda name: (name in begins, name))


def _begins_with(path: Path, text: str) -> bool:
    try:
        with path.open(encoding="utf-8") as stream:
            return text in stream.read(_BEGINNING)
    except (OSError, ValueError):
        return False
