"""A parser whose errors are one line, like all errors of the command line, and whose help ends with an example."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from radial_vicreg.errors import UserError


class Parser(argparse.ArgumentParser):
    """``ArgumentParser`` that raises an exception where the original prints its usage and exits.

    Args:
        example: command lines that the help text ends with, one per line.
    """

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example

    def format_help(self) -> str:
        """Return the help text, which the argparse module would wrap if the example were its epilog."""
        return super().format_help() + example_text(self.example)

    def error(self, message: str) -> NoReturn:
        """Raise an error about the command line.

        Raises:
            UserError: always.
        """
        raise UserError(f"{message}; see {self.prog} --help")

    def flags(self) -> list[str]:
        """List the long options that the help text shows."""
        shown = [action for action in self._actions if action.help != argparse.SUPPRESS]
        return [flag for action in shown for flag in action.option_strings if flag.startswith("--")]


def example_text(example: str) -> str:
    """Write the end of a help text; empty without an example."""
    return "\nexample:\n" + "".join(f"  {line}\n" for line in example.splitlines()) if example else ""
