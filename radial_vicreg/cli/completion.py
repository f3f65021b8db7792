"""Completion in the shell: sub-commands, their options, and the names of configurations and sweeps.

argcomplete starts this command at every Tab, so only the sub-command that was typed is imported, and no PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Mapping
from types import ModuleType

REQUESTED = "_ARGCOMPLETE"
"""Variable that the shell's function sets."""


def complete(commands: Mapping[str, str]) -> None:
    """Answer the shell, and end the process.

    Args:
        commands: sub-commands with what they do.
    """
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(command_parser(commands, words[1] if len(words) > 1 else ""))


def command_parser(commands: Mapping[str, str], typed: str) -> argparse.ArgumentParser:
    """Make a parser of the whole command line, complete for one sub-command.

    Args:
        commands: sub-commands with what they do.
        typed: the one whose options are wanted; any other text gives their names alone.

    Returns:
        The parser; it is not meant to read a command line.
    """
    parser = argparse.ArgumentParser("radial-vicreg")
    parser.add_argument("--version", action="store_true")
    choice = parser.add_subparsers()
    for name, about in commands.items():
        if name == typed:
            _add(choice, name, importlib.import_module(f"radial_vicreg.cli.commands.{name.replace('-', '_')}"))
        else:
            choice.add_parser(name, help=about)
    return parser


def _add(choice: argparse._SubParsersAction[argparse.ArgumentParser], name: str, command: ModuleType) -> None:
    if not hasattr(command, "parser"):  # solo: the rest belongs to a script
        choice.add_parser(name).add_argument("rest", nargs="*")
        return
    parts = getattr(command, "PARTS", {})
    added = choice.add_parser(name, parents=[command.parser()], add_help=False)
    if parts:
        inner = added.add_subparsers()
        for part, make in parts.items():
            inner.add_parser(part, parents=[make()], add_help=False)
