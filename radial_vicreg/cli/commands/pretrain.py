"""``radial-vicreg pretrain [--config-name NAME] [--config-path DIR] [--check] [key=value ...]``."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from radial_vicreg.cli.hydra_flags import hydra_parser, read_request
from radial_vicreg.cli.parser import Parser
from radial_vicreg.errors import NOT_FINISHED

if TYPE_CHECKING:
    from radial_vicreg.config import RunConfig
    from radial_vicreg.sweeps.claims import RunClaim


def parser() -> Parser:
    """Make the parser of this command."""
    made = hydra_parser(
        "radial-vicreg pretrain",
        "Pretrain with Radial-VICReg or VICReg on solo-learn's host or the embedded one (host=...).",
        default_name="radialvicreg",
    )
    made.add_argument(
        "--check", action="store_true", help="say what the run would be and what is wrong with it; nothing is written"
    )
    # What `radial-vicreg sweep --run` starts: the training itself takes the claim of its run.
    made.add_argument("--claim", action="store_true", help=argparse.SUPPRESS)
    return made


def run(arguments: Sequence[str]) -> int:
    """Train one configuration and say where its results are, or only say what it would be.

    Args:
        arguments: command line after ``pretrain``.

    Returns:
        0; with ``--claim``, 3 when another process is training the run of a sweep.

    Raises:
        UserError: wrong configuration or data.
        RunFailed: the loss stopped being a number, or a data-loading process died.
        RunStopped: SIGTERM, SIGUSR1 or SIGHUP came.
    """
    request = read_request(parser(), arguments)
    from radial_vicreg.compose import compose, composed_text, run_config

    if request.text_only:
        print(composed_text(*request.where))
        return 0
    config = run_config(compose(*request.where))
    if request.check:
        from radial_vicreg.solo.host import choose_host
        from radial_vicreg.train.check import check

        print("\n".join(check(config, choose_host)))
        return 0
    if not request.claim:
        return train(config)
    from radial_vicreg.sweeps.claims import ClaimedError, RunClaim

    try:
        return train(config, RunClaim(config, "training this run"))
    except ClaimedError as error:
        print(error, file=sys.stderr)
        return NOT_FINISHED


def train(config: RunConfig, claim: RunClaim | None = None) -> int:
    """Train a configuration and print where its results are.

    Args:
        config: as requested.
        claim: of a sweep's run, which is taken for the time of the training.

    Returns:
        0.

    Raises:
        ClaimedError: another process is training the run of the claim.
        UserError: as :func:`run`; so are the other errors.
    """
    from radial_vicreg.runs.results import RESULTS
    from radial_vicreg.solo.host import choose_host
    from radial_vicreg.sweeps.claims import FinishedAlready
    from radial_vicreg.train.run import pretrain

    try:
        folder = pretrain(config, choose_host, claim)
    except FinishedAlready as found:
        print(found)
        return 0
    if (folder / RESULTS).is_file():  # only the first process writes
        print(summary(folder))
    return 0


def summary(folder: Path) -> str:
    """Write the last lines of a run: radii, probes, files."""
    from radial_vicreg.names.probes import frozen_key, online_key
    from radial_vicreg.probes.registry import probe_classes, probe_in_words
    from radial_vicreg.runs.results import RESULTS, RunResults

    results = RunResults.read(folder / RESULTS)
    lines = [f"{results.status}: {results.epochs} epochs, {results.steps} steps, {results.seconds or 0:.0f} s"]
    first, last = results.radii.initial, results.radii.final
    if first is not None and last is not None and last.dim is not None:
        lines += [
            f"radii on {_number(last.eval.count, '.0f')} {results.radii.images} images, d = {last.dim}:",
            f"  W1 to chi  {_number(first.eval.w1_chi)} -> {_number(last.eval.w1_chi)}  (evaluation mode)",
            f"  W1 to chi  {_number(first.batch.w1_chi)} -> {_number(last.batch.w1_chi)}  (batch statistics)",
            f"  mean       {_number(first.eval.radius_mean)} -> {_number(last.eval.radius_mean)}"
            f"  (sqrt(d - 1) = {(last.dim - 1) ** 0.5:.2f})",
        ]
    for name in (probe.name for probe in probe_classes() if probe.frozen is not None):
        frozen = getattr(results.probes, frozen_key(name), None)
        if frozen is not None and frozen.untrained is not None and frozen.trained is not None:
            before, after = (f"{_number(figures.top1, '.1f')} %" for figures in (frozen.untrained, frozen.trained))
            lines.append(f"{probe_in_words(name)} of frozen features: untrained {before}, trained {after}")
    online = results.probe(online_key()).top1  # None for attributes
    if online is not None:
        lines.append(f"online {probe_in_words()}: {online:.1f} %")
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.suffix in (".ckpt", ".png", ".json")]
    lines.append(f"in {folder}: {', '.join(sorted(map(str, files)))}")
    return "\n".join(lines)


def _number(value: float | None, form: str = "6.2f") -> str:
    """Write a figure as text; one that was not finite has become None in the file."""
    return format(math.nan if value is None else value, form)
