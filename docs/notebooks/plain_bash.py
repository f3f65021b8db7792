"""An IPython extension: a ``%%bash`` that prints in one piece what a terminal without colours would show.

IPython's own passes output on in pieces of 100 bytes and asks every program for colours and progress bars.
"""

from __future__ import annotations

import os
import subprocess

from IPython.core.interactiveshell import InteractiveShell


def bash(line: str, cell: str) -> None:
    """Run a cell in bash.

    Args:
        line: not used.
        cell: the commands.

    Raises:
        RuntimeError: one of them failed; the message has the output.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    command = ["bash", "-euo", "pipefail", "-c", cell]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"exit status {done.returncode}\n{done.stdout}")
    print(done.stdout, end="")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Take the place of IPython's ``%%bash``."""
    shell.register_magic_function(bash, magic_kind="cell")
