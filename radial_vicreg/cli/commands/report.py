"""``radial-vicreg report RUNS_DIR --out DIR``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.cli.parser import Parser
from radial_vicreg.names.choices import SELECTIONS
from radial_vicreg.names.probes import SOURCES


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg report",
        description="Make the paper's tables and figures from every results.json below a folder.",
        example="radial-vicreg report runs --out report --against vicreg",
    )
    made.add_argument("runs", metavar="RUNS_DIR", type=Path, help="folder with runs, at any depth")
    made.add_argument("--out", type=Path, default=Path("report"), help="folder to write (default: report)")
    made.add_argument(
        "--source",
        choices=SOURCES,
        default=SOURCES[0],
        help="probes of the tables: those of pretraining, or those of `radial-vicreg probe --add-to-results`",
    )
    made.add_argument(
        "--select",
        choices=SELECTIONS,
        default=SELECTIONS[0],
        help="experiment of a cell: the one nearest to the paper's settings, or the best of those that differ in "
        "what the paper swept, by the cell's own validation figure",
    )
    made.add_argument(
        "--against",
        metavar="BASE",
        help="compare every comparable experiment with this one, with 95 %% intervals, paired by seed: the "
        "beginning of its hash, or its method (vicreg, radial_kl, radial_wasserstein, lejepa, ...) if only one has it",
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Write the report and print a summary of its contents.

    Args:
        arguments: command line after ``report``.

    Returns:
        0.

    Raises:
        UserError: the folder does not exist or has no finished run, or ``--against`` does not identify exactly one
            experiment.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.paper.report import build_report

    report = build_report(parsed.runs, parsed.out, parsed.source, parsed.select, parsed.against)
    print(report.summary)
    print(f"cells of the paper's tables filled: {report.filled[0]} of {report.filled[1]}")
    print(f"written: {report.out / 'report.html'} (lists unused runs with the reason), tables, figures (PNG, PDF, SVG)")
    return 0
