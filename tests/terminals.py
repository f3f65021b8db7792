"""Commands in a pseudo-terminal of some width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def in_terminal(arguments: list[str], columns: int, folder: Path) -> list[str]:
    """The lines that a person sees of a command line in a terminal of so many columns, without their colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    # COLUMNS of the shell that started the tests would hide the terminal's own width.
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "radial_vicreg.cli", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env={**environment, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        text = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    assert process.returncode == 0, text.decode()
    return _STYLES.sub("", text.decode()).replace("\r\n", "\n").splitlines()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux, once the other side is closed
        return b""
