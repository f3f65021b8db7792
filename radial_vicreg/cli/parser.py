"""A parser whose errors are one line, like all errors of the command line."""

from __future__ import annotations

import argparse
from typing import NoReturn

from radial_vicreg.errors import UserError


class Parser(argparse.ArgumentParser):
    """``ArgumentParser`` that raises an exception where the original prints its usage and exits."""

    def error(self, message: str) -> NoReturn:
        """Raise an error about the command line.

        Raises:
            UserError: always.
        """
        raise UserError(f"{message}; see {self.prog} --help")
