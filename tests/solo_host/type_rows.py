"""Starts main_pretrain.py for each of many command lines, as ``python main_pretrain.py`` does, and keeps what it says.

    python type_rows.py SCRIPT ROWS.json FOLDER

``ROWS.json`` is a list of lists of arguments. Row N runs in ``FOLDER/N`` and leaves ``said`` and ``status`` there. Each
runs in a fork of this process, which has imported the libraries before: importing them takes longer than a row.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import solo.methods  # noqa: F401

import radial_vicreg.solo.method  # noqa: F401


def run(script: str, arguments: list[str], folder: Path) -> int:
    """Run the script as ``__main__`` in a folder, with its output in a file, and return the exit status."""
    os.chdir(folder)
    said = os.open("said", os.O_CREAT | os.O_WRONLY)
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    for number, row in enumerate(json.loads(Path(sys.argv[2]).read_text())):
        place = Path(sys.argv[3]) / str(number)
        child = os.fork()
        if not child:
            status = run(sys.argv[1], row, place)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (place / "status").write_text(str(ended))
