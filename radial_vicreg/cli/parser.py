"""Command lines whose errors are one line, as those of everything else here."""

from __future__ import annotations

import argparse
from typing import NoReturn

from radial_vicreg.errors import UserError


class Parser(argparse.ArgumentParser):
    """``argparse``'s parser that raises where that one prints its usage and ends the process."""

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with the command line.

        Raises:
            UserError: always.
        """
        raise UserError(f"{message}; see {self.prog} --help")
