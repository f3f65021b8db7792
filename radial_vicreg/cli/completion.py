"""Shell completion of sub-commands, their options, and the names of configurations and sweeps.

argcomplete starts this command at every Tab. For speed, only the typed sub-command is imported, without PyTorch.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from types import ModuleType

from radial_vicreg.cli.commands import command_module

REQUESTED = "_ARGCOMPLETE"
"""Environment variable that the shell's completion function sets."""


def complete(commands: Mapping[str, str]) -> None:
    """Print the completions and end the process.

    Args:
        commands: descriptions by sub-command.
    """
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(command_parser(commands, words[1] if len(words) > 1 else ""))


def command_parser(commands: Mapping[str, str], typed: str) -> argparse.ArgumentParser:
    """Make a parser of the whole command line, with the options of one sub-command only.

    Args:
        commands: descriptions by sub-command.
        typed: sub-command whose options are added; for any other text, the parser knows the names only.

    Returns:
        A parser for completion; it does not parse a command line.
    """
    parser = argparse.ArgumentParser("radial-vicreg")
    parser.add_argument("--version", action="store_true")
    choice = parser.add_subparsers()
    for name, about in commands.items():
        if name == typed:
            _add(choice, name, command_module(name))
        else:
            choice.add_parser(name, help=about)
    return parser


def _add(choice: argparse._SubParsersAction[argparse.ArgumentParser], name: str, command: ModuleType) -> None:
    if not hasattr(command, "parser"):  # solo: the other arguments are the script's
        choice.add_parser(name).add_argument("rest", nargs="*")
        return
    parts = getattr(command, "PARTS", {})
    added = choice.add_parser(name, parents=[command.parser()], add_help=False)
    if parts:
        inner = added.add_subparsers()
        for part, make in parts.items():
            inner.add_parser(part, parents=[make()], add_help=False)
