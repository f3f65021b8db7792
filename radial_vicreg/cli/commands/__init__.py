"""One module per sub-command of ``radial-vicreg``; each has ``run(arguments) -> exit status``."""

from __future__ import annotations

import importlib
import keyword
from types import ModuleType


def command_module(command: str) -> ModuleType:
    """Import the module of a sub-command; ``try`` is a keyword of Python, so its module is ``try_``.

    Args:
        command: a key of :data:`radial_vicreg.cli.COMMANDS`.
    """
    name = command.replace("-", "_")
    return importlib.import_module(f"{__name__}.{name}{'_' * keyword.iskeyword(name)}")
