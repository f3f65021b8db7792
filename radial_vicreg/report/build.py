"""From a folder of runs to a folder of tables and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from radial_vicreg.figures import SUFFIXES, figure_style, save_figure
from radial_vicreg.files import claim_output
from radial_vicreg.report.cells import OPTIMISTIC, Cell, Table, build_tables
from radial_vicreg.report.collect import Experiment, Problem, collect, group
from radial_vicreg.report.differences import (
    Differences,
    difference_csv,
    difference_notes,
    difference_rows,
    differences,
)
from radial_vicreg.report.drawing import draw_all
from radial_vicreg.report.drawn import Drawn
from radial_vicreg.report.experiments import experiment_csv, experiment_notes, experiment_rows
from radial_vicreg.report.formats import Section, counted, markdown_text, to_latex, to_markdown
from radial_vicreg.report.page import build_page
from radial_vicreg.report.tables import table_csv, table_notes, table_rows

_TITLE = "Radial-VICReg: tables and figures from finished runs"


@dataclass
class Report:
    """What was written.

    Attributes:
        out: the folder.
        summary: one sentence.
        experiments: what was averaged.
        problems: files that no table uses.
        filled: cells of the paper's tables that have a value, and all cells.
        choices: what ``select="best"`` chose for which cell.
    """

    out: Path
    summary: str
    experiments: list[Experiment]
    problems: list[Problem]
    filled: tuple[int, int]
    choices: list[str]


def build_report(
    runs_dir: str | Path,
    out: str | Path,
    source: str = "online",
    select: str = "paper",
    style: str = "paper",
    against: str | None = None,
) -> Report:
    """Write tables 1 to 4, the list of experiments, the figures, ``report.md`` and ``report.html``.

    Args:
        runs_dir: every ``results.json`` below it is read, and nothing else.
        out: folder to write; files of an earlier report are replaced.
        source: ``"online"`` or ``"offline"`` probes for the tables.
        select: ``"paper"`` (the experiment nearest to the paper's settings) or ``"best"`` (of what the paper swept).
        style: of the figures, a key of :data:`radial_vicreg.figures.STYLES`.
        against: the beginning of an experiment's hash, or a method, whose differences to the others are wanted, too:
            see :func:`radial_vicreg.report.differences.differences`.

    Returns:
        What was written.

    Raises:
        UserError: ``runs_dir`` does not exist, another source, selection or style, ``out`` cannot be written, or
            ``against`` is not one experiment.
    """
    target = claim_output(out, "folder")
    claim_output(target / "figures", "folder")
    runs, problems = collect(runs_dir)
    experiments, repeated = group(runs)
    problems = sorted([*problems, *repeated], key=lambda problem: problem.path)
    tables = build_tables(experiments, source, select)
    compared = None if against is None else differences(experiments, against)
    summary = _summary(experiments, problems, runs_dir)
    with figure_style(style):
        target.mkdir(parents=True, exist_ok=True)
        figures = draw_all(experiments)
        for drawn in figures:
            _replace_figure(drawn, target / "figures" / drawn.name)
        sections = [_experiment_section(experiments, target)] if experiments else []
        sections += _difference_section(compared, target)
        sections += [_table_section(table, target) for table in tables]
        _write(target / "report.html", build_page(_TITLE, summary, sections, figures, problems))
    _write(target / "report.md", _markdown(summary, sections, figures, problems))
    cells = [cell for table in tables for cell in table.cells]
    filled = (sum(bool(cell.values) for cell in cells), len(cells))
    return Report(target, summary, experiments, problems, filled, _choices(cells))


def _choices(cells: Sequence[Cell]) -> list[str]:
    chosen = [f"{cell.config}, {cell.features} {cell.probe}: {cell.remarks[0]}" for cell in cells if cell.candidates]
    return [OPTIMISTIC, *chosen] if chosen else []


def _table_section(table: Table, target: Path) -> Section:
    """Write one of the paper's tables and return it for the page."""
    header, body = table_rows(table)
    filled = any(cell.values for cell in table.cells)
    section = Section(f"Table {table.number}: {table.caption}", header, body, table_notes(table), filled)
    _write_section(section, target / f"table{table.number}", table_csv(table), table.caption)
    return section


def _experiment_section(experiments: list[Experiment], target: Path) -> Section:
    header, body = experiment_rows(experiments)
    caption = "All experiments (mean ± standard deviation over n seeds; W1 to chi in evaluation mode)"
    _write(target / "experiments.csv", experiment_csv(experiments))
    notes = experiment_notes(experiments)
    _write(target / "experiments.tex", to_latex(header, body, caption, "tab:experiments", notes))
    _write(target / "experiments.md", f"{to_markdown(header, body)}\n{_bullets(notes)}")
    return Section(caption, header, body, notes)


def _difference_section(found: Differences | None, target: Path) -> list[Section]:
    """Write the differences and return them for the page; without any, remove those of an earlier report."""
    stem = target / "differences"
    if found is None:
        for suffix in (".md", ".tex", ".csv"):
            stem.with_suffix(suffix).unlink(missing_ok=True)
        return []
    header, body = difference_rows(found)
    section = Section(found.caption, header, body, difference_notes(found), filled=bool(body))
    _write_section(section, stem, difference_csv(found), section.caption)
    return [section]


def _write_section(section: Section, stem: Path, csv: str, caption: str) -> None:
    header, body, notes = section.header, section.body, section.notes
    _write(stem.with_suffix(".csv"), csv)
    _write(stem.with_suffix(".tex"), to_latex(header, body, caption, f"tab:{stem.name}", notes))
    _write(stem.with_suffix(".md"), f"{section.caption}\n\n{to_markdown(header, body)}\n{_bullets(notes)}")


def _summary(experiments: Sequence[Experiment], problems: Sequence[Problem], runs_dir: str | Path) -> str:
    count = sum(len(experiment.runs) for experiment in experiments)
    left_out = Counter(problem.kind for problem in problems)
    detail = ", ".join(f"{number} {kind}" for kind, number in sorted(left_out.items()))
    found = f"{counted(count, 'finished run')} in {counted(len(experiments), 'experiment')}"
    return f"{found if count else f'No finished run below {runs_dir}'}; not used: {detail or 'nothing'}."


def _markdown(summary: str, sections: Sequence[Section], figures: Sequence[Drawn], problems: Sequence[Problem]) -> str:
    parts = [f"# {_TITLE}", summary, *_markdown_tables([section for section in sections if section.filled])]
    drawn = [each for each in figures if each.figure is not None]
    parts += ["## Figures"] if drawn else []
    parts += [f"![{each.name}](figures/{each.name}.png)\n\n{markdown_text(each.caption)}" for each in drawn]
    missing = _markdown_tables([section for section in sections if not section.filled])
    missing += [markdown_text(each.caption) for each in figures if each.figure is None]
    parts += ["# Missing", *missing] if missing else []
    if problems:
        parts += ["# Not used", _bullets([f"`{p.path}`: {p.kind}; {p.reason}" for p in problems]).rstrip()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_tables(sections: Sequence[Section]) -> list[str]:
    parts = []
    for section in sections:
        table = to_markdown(section.header, section.body).rstrip()
        parts += [f"## {section.caption}", table, _bullets(section.notes).rstrip()]
    return parts


def _bullets(notes: Sequence[str]) -> str:
    return "".join(f"- {markdown_text(note)}\n" for note in notes)


def _replace_figure(drawn: Drawn, path: Path) -> None:
    if drawn.figure is not None:
        save_figure(drawn.figure, path)
        return
    for suffix in SUFFIXES:  # of an earlier report: it would show runs that are gone
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
