"""``radial-vicreg compare A B [--json]``: differences between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radial_vicreg.cli.parser import Parser
from radial_vicreg.cli.tables import print_json, print_table
from radial_vicreg.errors import UserError

if TYPE_CHECKING:
    from radial_vicreg.runs.results import RunResults


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg compare",
        description="Show the settings and the results in which two runs differ.",
        example="radial-vicreg compare runs/A/20261101-120000 runs/B/20261101-130000",
    )
    made.add_argument("first", metavar="A", type=Path, help="a run's folder, or one above it")
    made.add_argument("second", metavar="B", type=Path, help="the other run's folder, or one above it")
    made.add_argument("--json", action="store_true", help="for programs")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the differing keys.

    Args:
        arguments: command line after ``compare``.

    Returns:
        0, also for two equal runs.

    Raises:
        UserError: a run does not exist or has no results.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.runs.stored import single_run
    from radial_vicreg.runs.summaries import differences, images_note

    folders = [single_run(path) for path in (parsed.first, parsed.second)]
    results = [_results(folder) for folder in folders]
    found, note = differences(*results), images_note(*results)
    if parsed.json:
        runs = dict(zip(("first", "second"), map(str, folders), strict=True))
        print_json({**runs, "images": note, "differences": [one._asdict() for one in found]})
        return 0
    for name, folder in zip("AB", folders, strict=True):
        print(f"{name}: {folder}")
    if note is not None:
        print(f"images: {note}")
    for part in ("configuration", "no settings", "results"):
        rows = [(one.key, _text(one.first), _text(one.second)) for one in found if one.part == part]
        if rows:
            print()
            print_table((part, "A", "B"), rows)
        elif part != "no settings":
            print(f"\n{part}: no difference")
    return 0


def _results(folder: Path) -> RunResults:
    from radial_vicreg.runs.results import RESULTS
    from radial_vicreg.runs.stored import open_stored_run

    if not (folder / RESULTS).is_file():
        raise UserError(f"{folder} contains no run with results.json; `radial-vicreg runs DIR` lists runs")
    return open_stored_run(folder).results


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "-" if value is None else str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
