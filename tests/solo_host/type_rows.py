"""Starts main_pretrain.py for each of many command lines, as ``python main_pretrain.py`` does, and keeps what it says.

    python type_rows.py SCRIPT ROWS.json FOLDER

``ROWS.json`` is a list of lists of arguments. Row N runs in ``FOLDER/N`` and leaves ``out``, ``err`` and ``status``
there. Each runs in a fork of this process, which has imported the libraries before: importing them takes longer than a
row. torchvision does not compare the MD5 sums of CIFAR's files, which are the tests' own.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import matplotlib.pyplot  # noqa: F401
import solo.methods  # noqa: F401
import torchvision

import radial_vicreg.solo.method  # noqa: F401

torchvision.datasets.CIFAR100._check_integrity = lambda self: True
torchvision.datasets.cifar.check_integrity = lambda *arguments: True


def run(script: str, arguments: list[str], folder: Path) -> int:
    """Run the script as ``__main__`` in a folder, with its output in files, and return the exit status."""
    os.chdir(folder)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
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
