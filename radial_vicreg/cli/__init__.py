"""``radial-vicreg``: one command line, one module in :mod:`radial_vicreg.cli.commands` for each sub-command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from radial_vicreg import __version__
from radial_vicreg.cli.commands import command_module
from radial_vicreg.cli.completion import REQUESTED, complete
from radial_vicreg.cli.parser import example_text
from radial_vicreg.cli.unknown import unknown_command
from radial_vicreg.errors import (
    INTERRUPTED,
    STOP_SIGNALS,
    ReportedError,
    RunFailed,
    RunStopped,
    UserError,
)
from radial_vicreg.io.files import refusal
from radial_vicreg.io.notices import ignore_library_deprecations
from radial_vicreg.io.stopping import SignalReceived, signals_raise
from radial_vicreg.io.streams import lasting_streams

COMMANDS = {
    "try": "train three methods briefly, on digits or your own images, and compare them in one figure",
    "pretrain": "train Radial-VICReg or VICReg (Hydra overrides)",
    "synthetic": "run the paper's 2-D experiments, make their figures, run their sweep",
    "sweep": "list, run or follow a sweep, without W&B",
    "configs": "list the configurations that --config-name takes",
    "runs": "list the runs below a folder: status, settings, W1, probe, age",
    "compare": "print the settings and results in which two runs differ",
    "probe": "probe the frozen features of a finished run",
    "diagnose": "measure how Gaussian the embeddings of runs, backbones or a matrix are",
    "report": "make the paper's tables and figures from finished runs",
    "export": "export the backbone for torchvision, timm, safetensors or the Hugging Face Hub",
    "data": "prepare a data set (`radial-vicreg data --help` lists them)",
    "solo": "run a script of solo-learn with the method registered",
    "config-schema": "print every key of a configuration: a JSON schema for editors, or tables",
    "doctor": "print what is installed, which host is used, and how to fix the rest",
}

_EXAMPLE = "radial-vicreg data digits\nradial-vicreg pretrain --config-name quickstart"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command, and finish it even where its output pipe is closed.

    Args:
        argv: arguments after the program's name; default: the process's arguments.

    Returns:
        Exit status: 0 on success; 2 for wrong input, 1 when a run failed, 143 after SIGTERM, SIGUSR1 or SIGHUP, each
        with one line on standard error; 130 after Ctrl-C; 3 when a sweep ends with unfinished runs. Any other
        exception is a bug and propagates.
    """
    # A notebook passes MPLBACKEND=module://matplotlib_inline... to child processes. Without that module, importing
    # matplotlib fails, and torchmetrics imports it. Figures are only written to files, so Agg is enough.
    os.environ["MPLBACKEND"] = "agg"
    if argv is None and REQUESTED in os.environ:
        complete(COMMANDS)
    ignore_library_deprecations()
    with lasting_streams():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(arguments: list[str]) -> int:
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else UserError.exit_status
    if arguments[0] == "--version":
        print(f"radial-vicreg {__version__}")
        return 0
    command, *rest = arguments
    if command not in COMMANDS:
        return _report("radial-vicreg", unknown_command(command, rest, COMMANDS))
    try:
        with signals_raise(_signals_of(command)):
            run = command_module(command).run
            return int(run(rest))
    except KeyboardInterrupt:
        return INTERRUPTED
    except SignalReceived as stop:
        return _report(f"radial-vicreg {command}", RunStopped(stop))
    except SystemExit as stop:  # argparse, after --help
        return int(stop.code or 0)
    except ReportedError as error:
        return _report(f"radial-vicreg {command}", error)
    except OSError as error:
        if (reason := refusal(error)) is None:
            raise
        return _report(f"radial-vicreg {command}", RunFailed(reason))


def _signals_of(command: str) -> list[signal.Signals]:
    """List the signals that end a command with an exception.

    A script run by ``solo`` installs its own handlers. SIGUSR1 during training is left to Lightning, which uses it to
    requeue Slurm jobs unless another handler is installed.
    """
    left = {"solo": STOP_SIGNALS, **dict.fromkeys(("pretrain", "try", "sweep"), (signal.SIGUSR1,))}.get(command, ())
    return [number for number in STOP_SIGNALS if number not in left]


def _report(who: str, error: ReportedError) -> int:
    label = "error: " if isinstance(error, UserError) else ""
    print(f"{who}: {label}{' '.join(str(error).split())}", file=sys.stderr)
    return error.exit_status


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    listed = "\n".join(lines)
    text = f"usage: radial-vicreg COMMAND ...\n\n{listed}\n\nUse radial-vicreg COMMAND --help for its options.\n"
    return (text + example_text(_EXAMPLE)).rstrip()
