"""``radial-vicreg probe RUN_OR_CKPT --probe NAME --features encoder|projector``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.cli.parser import Parser
from radial_vicreg.names import probes as probe_names
from radial_vicreg.names.choices import ON_BAD_IMAGE


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg probe",
        description="Probe the frozen features of a finished run of either host or of solo-learn's main_pretrain.py.",
        example="radial-vicreg probe runs/latest --probe knn --features projector",
    )
    made.add_argument("run", metavar="RUN_OR_CKPT", type=Path, help="a run's folder, one above it, or a checkpoint")
    for option, choices in (("--probe", probe_names.PROBES), ("--features", tuple(probe_names.FEATURES))):
        made.add_argument(option, choices=choices, default=choices[0], help=f"default: {choices[0]}")
    made.add_argument(
        "--untrained", action="store_true", help="probe random weights from the run's seed, as a baseline"
    )
    made.add_argument("--train", type=Path, help="training images (default: the run's data.train_path)")
    made.add_argument("--val", type=Path, help="validation images (default: the run's data.val_path)")
    made.add_argument("--workers", type=int, help="processes that load images (default: the run's data.num_workers)")
    made.add_argument("--seed", type=int, default=0, help="seed of the held-out split and the MLP (default: 0)")
    made.add_argument(
        "--on-bad-image",
        choices=ON_BAD_IMAGE,
        help="stop at an image that cannot be read, or skip it (default: the run's data.on_bad_image)",
    )
    made.add_argument(
        "--add-to-results", action="store_true", help="also add the results to results.json, for `radial-vicreg report`"
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Probe one run and print a one-line summary.

    Args:
        arguments: command line after ``probe``.

    Returns:
        0.

    Raises:
        UserError: the run does not exist, or its images or labels are missing.
    """
    parsed = parser().parse_args(list(arguments))
    from radial_vicreg.runs.checkpoints import require_run

    require_run(parsed.run)  # before PyTorch is imported
    from radial_vicreg.probes.offline import add_to_results, probe_run, summary

    file, content = probe_run(
        parsed.run,
        probe=parsed.probe,
        features=parsed.features,
        untrained=parsed.untrained,
        train=parsed.train,
        val=parsed.val,
        workers=parsed.workers,
        seed=parsed.seed,
        on_bad_image=parsed.on_bad_image,
        for_results=parsed.add_to_results,
    )
    where = str(file)
    if parsed.add_to_results:
        where += f" and results.json: probes.{add_to_results(file.parent.parent, content)}"
    print(f"{summary(content)}; {where}")
    return 0
