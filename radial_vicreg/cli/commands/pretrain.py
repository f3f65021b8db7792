"""``radial-vicreg pretrain [--config-name NAME] [--config-path DIR] [--check [--all-images]] [key=value ...]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from radial_vicreg.cli.hydra_flags import hydra_parser, read_request
from radial_vicreg.cli.parser import Parser
from radial_vicreg.errors import NOT_FINISHED, UserError

if TYPE_CHECKING:
    from radial_vicreg.config import RunConfig
    from radial_vicreg.sweeps.claims import RunClaim


def parser() -> Parser:
    """Make the parser of this command."""
    made = hydra_parser(
        "radial-vicreg pretrain",
        "Pretrain with Radial-VICReg or VICReg on solo-learn's host or the embedded one (host=...).",
        default_name="radialvicreg",
        example="radial-vicreg pretrain --config-name quickstart max_epochs=2 --check",
    )
    made.add_argument(
        "--check",
        action="store_true",
        help="check the configuration, open a sample of the images, and print what the run would be; nothing is "
        "written",
    )
    made.add_argument("--all-images", action="store_true", help="with --check: open every image")
    # `radial-vicreg sweep --run` passes this option: the training process itself takes the claim of its run.
    made.add_argument("--claim", action="store_true", help=argparse.SUPPRESS)
    return made


def run(arguments: Sequence[str]) -> int:
    """Train one configuration and print the path of its results, or only print a description of the run.

    Args:
        arguments: command line after ``pretrain``.

    Returns:
        0; with ``--claim``, 3 when another process is training the run of a sweep.

    Raises:
        UserError: the configuration or the data are invalid.
        RunFailed: the loss became NaN or infinite, or a data-loading process died.
        RunStopped: SIGTERM, SIGUSR1 or SIGHUP was received.
    """
    request = read_request(parser(), arguments)
    from radial_vicreg.compose import compose, composed_text, run_config

    if request.text_only:
        print(composed_text(*request.where))
        return 0
    if request.all_images and not request.check:
        raise UserError("--all-images needs --check; a training opens every image in its first epoch")
    config = run_config(compose(*request.where))
    check_first(config)
    if request.check:
        from radial_vicreg.solo.host import choose_host
        from radial_vicreg.train.check import check

        print("\n".join(check(config, choose_host, all_images=request.all_images)))
        return 0
    if not request.claim:
        return train(config)
    from radial_vicreg.sweeps.claims import ClaimedError, RunClaim

    try:
        return train(config, RunClaim(config, "training this run"))
    except ClaimedError as error:
        print(error, file=sys.stderr)
        return NOT_FINISHED


def check_first(config: RunConfig) -> None:
    """Refuse misspelt names and missing places before PyTorch is imported, which takes seconds.

    Args:
        config: the requested configuration.

    Raises:
        UserError: there is one.
    """
    from radial_vicreg.solo.detect import check_host
    from radial_vicreg.train import first_checks

    first_checks.check_first(config)
    if not first_checks.standalone_options(config):
        check_host(config.host, config.backbone.name)


def train(config: RunConfig, claim: RunClaim | None = None) -> int:
    """Train a configuration and print the path of its results.

    Args:
        config: the requested configuration.
        claim: claim of a sweep's run, held during the training.

    Returns:
        0.

    Raises:
        ClaimedError: another process is training the claimed run.
        UserError: see :func:`run`, also for the other errors.
    """
    from radial_vicreg.probes.registry import probe_classes, probe_in_words
    from radial_vicreg.runs.results import RESULTS
    from radial_vicreg.runs.stored import open_stored_run
    from radial_vicreg.runs.summaries import closing_lines
    from radial_vicreg.solo.host import choose_host
    from radial_vicreg.sweeps.claims import FinishedAlready
    from radial_vicreg.train.run import pretrain

    try:
        folder = pretrain(config, choose_host, claim)
    except FinishedAlready as found:
        print(found)
        return 0
    if (folder / RESULTS).is_file():  # only process 0 writes results
        words = {probe.name: probe_in_words(probe.name) for probe in probe_classes() if probe.frozen is not None}
        print("\n".join(closing_lines(open_stored_run(folder), words)))
    return 0
