"""``radial-vicreg sweep FILE [--list | --index I | --run | --status | --for-pretrain] [key=value ...]``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from radial_vicreg.cli.hydra_flags import parse_overrides, read_request
from radial_vicreg.cli.parser import Parser
from radial_vicreg.cli.tables import name_bad_file, print_table
from radial_vicreg.errors import NOT_FINISHED, RunFailed, UserError
from radial_vicreg.io.notices import warn
from radial_vicreg.names.configurations import sweep_names
from radial_vicreg.names.counts import counted

if TYPE_CHECKING:
    from radial_vicreg.sweeps.grid import Sweep, SweepRun
    from radial_vicreg.sweeps.status import RunState


def run(arguments: Sequence[str]) -> int:
    """List a sweep, run it or show its status, without W&B.

    Args:
        arguments: command line after ``sweep``.

    Returns:
        0 when all runs are finished; 1 when a run failed; 3 when none failed but some are unfinished.

    Raises:
        UserError: the sweep or the index does not exist, or a configuration cannot be composed.
    """
    parsed = parse_overrides(parser(), arguments)
    from radial_vicreg.sweeps.grid import load_sweep

    sweep = load_sweep(parsed.sweep)
    if parsed.resume:
        warn("--resume has no effect: unfinished runs are always resumed; ckpt=null restarts them")
    if parsed.for_pretrain:
        print(sweep.for_pretrain(), end="")
    elif parsed.index is not None:
        return _run_one(sweep, parsed.index, parsed.overrides, parsed.wait, parsed.evidence)
    elif parsed.run:
        from radial_vicreg.sweeps.runner import run_missing

        left = run_missing(sweep.name, sweep.runs(), parsed.overrides, parsed.wait, parsed.evidence)
        if left.failed:
            return RunFailed.exit_status
        return NOT_FINISHED if left.unfinished and parsed.wait else 0
    elif parsed.status:
        _print_status(sweep, parsed.overrides, parsed.evidence)
    else:
        _print_list(sweep, parsed.overrides)
    return 0


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg sweep",
        description="List a sweep in W&B's format, run it or show its status, without W&B.",
        example="radial-vicreg sweep tables/table1 --status\nradial-vicreg sweep study --run max_epochs=10",
    )
    sweep = made.add_argument("sweep", metavar="FILE", help=f"a sweep file, or one of {', '.join(sweep_names())}")
    sweep.completer = _names_and_files  # type: ignore[attr-defined]
    made.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides for every run")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="print every run's command (the default)")
    what.add_argument(
        "--index", type=int, metavar="I", help="train or resume run I (from 0) unless it is finished, for array jobs"
    )
    what.add_argument(
        "--run",
        action="store_true",
        help="train or resume all runs that are not finished, one after the other, those past stability last; "
        "exit status 1 when a run failed, 3 when others are not finished",
    )
    what.add_argument("--status", action="store_true", help="print which runs are finished, failed or missing")
    what.add_argument(
        "--for-pretrain", action="store_true", help="print the file for `radial-vicreg pretrain` as program"
    )
    made.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)  # until 0.2; now always
    made.add_argument(
        "--no-wait",
        dest="wait",
        action="store_false",
        help="skip runs that other processes train, for array jobs; by default, --run and --index wait for them and "
        "train what is not finished then",
    )
    made.add_argument(
        "--evidence",
        type=Path,
        metavar="DIR",
        help="runs with results below DIR are finished; --run copies the results of those that finish there",
    )
    return made


def _names_and_files(prefix: str, **_: Any) -> list[str]:
    """Complete FILE, in the form that argcomplete expects."""
    from argcomplete.completers import FilesCompleter

    return [*sweep_names(), *FilesCompleter(("yaml",))(prefix)]


def _print_list(sweep: Sweep, overrides: Sequence[str]) -> None:
    from radial_vicreg.sweeps.predictions import predictions_of

    runs = sweep.runs()
    alike = {_without_seed(run): run for run in reversed(runs)}  # a run's seed plays no part in its stability
    try:
        predictions = predictions_of(list(alike.values()), overrides)
    except ValueError as error:  # a list is useful before the data exist
        print(f"cannot determine which runs are past stability: {error}", file=sys.stderr)
        predictions = []
    unstable = {
        _without_seed(prediction.run): prediction.past_stability
        for prediction in predictions
        if prediction.past_stability is not None
    }
    for one in runs:
        # The remark is a shell comment, so that the line can be pasted.
        remark = f"  # {unstable[key]}" if (key := _without_seed(one)) in unstable else ""
        print(f"{one.index}: radial-vicreg pretrain {shlex.join(one.arguments(*overrides))}{remark}")


def _without_seed(run: SweepRun) -> tuple[str, ...]:
    return tuple(override for override in run.overrides if not override.startswith("seed="))


def _run_one(sweep: Sweep, index: int, overrides: Sequence[str], wait: bool, evidence: Path | None) -> int:
    from radial_vicreg.cli.commands import pretrain
    from radial_vicreg.compose import compose, run_config
    from radial_vicreg.data.fingerprint import listed_once
    from radial_vicreg.sweeps.claims import RunClaim
    from radial_vicreg.sweeps.runner import pretrain_arguments
    from radial_vicreg.sweeps.status import states_of

    runs = sweep.runs()
    last = len(runs) - 1
    if not 0 <= index <= last:
        raise UserError(f"--index {index}: {sweep.name} has {f'the runs 0 to {last}' if last else 'one run, 0'}")
    with listed_once():
        (state,) = states_of([runs[index]], overrides, evidence=evidence)
        if state.is_finished:
            print(f"run {index} is finished: {state.folder}")
            return 0
        print(f"run {index}: {shlex.join(state.run.overrides)}")
        request = read_request(pretrain.parser(), pretrain_arguments(state.run, overrides))
        config = run_config(compose(*request.where))
        pretrain.check_first(config)
        return pretrain.train(config, RunClaim(config, f"training run {index}", on_wait=_say if wait else None))


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _print_status(sweep: Sweep, overrides: Sequence[str], evidence: Path | None) -> None:
    from radial_vicreg.runs.results import FINISHED
    from radial_vicreg.sweeps.status import states_of

    states = states_of(sweep.runs(), overrides, name_bad_file, evidence)
    print_table(("run", "status", "overrides", "folder", "remark"), [_row(state) for state in states])
    counts = Counter(state.status for state in states)
    others = "".join(f", {count} {status}" for status, count in sorted(counts.items()) if status != FINISHED)
    print(f"{sweep.name}: {counted(len(states), 'run')}, {counts[FINISHED]} finished{others}")


def _row(state: RunState) -> list[str]:
    folder = "" if state.folder is None else str(state.folder)
    remark = " ".join((state.error or "").split()) if state.apart is None else f"not counted: {state.apart}"
    return [str(state.run.index), state.status, " ".join(state.run.overrides), folder, remark]
