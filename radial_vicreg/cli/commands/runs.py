"""``radial-vicreg runs [DIR] [--json] [--check]``: the runs below a folder, and those that need attention."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radial_vicreg.cli.parser import Parser
from radial_vicreg.cli.tables import name_bad_file, print_json, print_table
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted
from radial_vicreg.names.probes import HOST_PROBE

if TYPE_CHECKING:
    from radial_vicreg.runs.summaries import RunSummary

_HEADER = ("run", "status", "method", "objective", "d", "epochs", "W1", "probe", "age", "tag")
_NUMBERS = ("d", "epochs", "W1", "probe", "age")


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg runs",
        description="List the runs below a folder, the newest last. W1 is the distance of the radii to chi(d), "
        "probe the "
        f"online {HOST_PROBE} probe in percent. A run that was killed stays `running`.",
        example="radial-vicreg runs runs --check",
    )
    made.add_argument("folder", nargs="?", type=Path, default=Path("runs"), metavar="DIR", help="default: runs")
    made.add_argument("--json", action="store_true", help="for programs")
    made.add_argument(
        "--check",
        action="store_true",
        help="list runs that release 0.2 confused with others, or whose results contradict their training, with "
        "the reason; exit status 1 where there are any",
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the list.

    Args:
        arguments: command line after ``runs``.

    Returns:
        0, even without a run; 1 if ``--check`` found a problem.

    Raises:
        UserError: the folder does not exist.
    """
    parsed = parser().parse_args(list(arguments))
    if not parsed.folder.is_dir():
        raise UserError(f"{parsed.folder} is not a folder; give the folder that contains your runs (runs_dir)")
    from radial_vicreg.runs.stored import stored_runs
    from radial_vicreg.runs.summaries import RunSummary

    if parsed.check:
        return _check(parsed.folder, parsed.json)
    found = [RunSummary.of(stored) for stored in reversed(stored_runs(parsed.folder, name_bad_file))]
    if parsed.json:
        print_json([summary._asdict() for summary in found])
    elif not found:
        print(f"no runs below {parsed.folder}")
    else:
        _print(found)
    return 0


def _check(folder: Path, as_json: bool) -> int:
    from radial_vicreg.runs.checks import check_runs
    from radial_vicreg.runs.stored import stored_runs

    runs = stored_runs(folder, name_bad_file)
    doubts = check_runs(runs)
    if as_json:
        print_json([doubt._asdict() for doubt in doubts])
    elif doubts:
        print_table(["run", "why"], [list(doubt) for doubt in doubts])
    else:
        print(f"{counted(len(runs), 'run')} below {folder}, none needs attention")
    return 1 if doubts else 0


def _print(found: Sequence[RunSummary]) -> None:
    rows = [_row(summary) for summary in found]
    kept = [place for place, name in enumerate(_HEADER) if name != "tag" or any(row[place] for row in rows)]
    print_table([_HEADER[place] for place in kept], [[row[place] for place in kept] for row in rows], right=_NUMBERS)


def _row(summary: RunSummary) -> list[str]:
    from radial_vicreg.runs.summaries import age

    return [
        summary.run,
        summary.status,
        summary.method or "",
        summary.objective or "",
        "" if summary.dim is None else str(summary.dim),
        f"{_or_unknown(summary.epochs)}/{_or_unknown(summary.max_epochs)}",
        "" if summary.w1 is None else f"{summary.w1:.2f}",
        "" if summary.probe is None else f"{summary.probe:.1f}",
        age(summary.started),
        summary.tag or "",
    ]


def _or_unknown(value: int | None) -> str:
    return "?" if value is None else str(value)
