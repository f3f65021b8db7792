"""Run pytest many times in one folder, each time in a fork of a process that has imported the large packages.

    python benchmarks/forked_tests.py PACKAGE ...

Each line of standard input starts a run, ``{"arguments": [...], "log": FILE}``. The answer consists of two lines: the
id of its process, which leads its own process group, and the exit status when it ends. Only the forks import tests,
from the working directory and ``PYTHONPATH``, so that changed modules are read again.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from contextlib import suppress


def main() -> None:
    sys.path[0] = os.getcwd()  # as in `python -m pytest`, instead of this file's folder
    for package in ("pytest", *sys.argv[1:]):
        with suppress(ImportError):
            importlib.import_module(package)
    while line := sys.stdin.readline():
        run = json.loads(line)
        child = os.fork()
        if child == 0:
            _run_tests(run["arguments"], run["log"])
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _run_tests(arguments: list[str], log: str) -> None:
    import pytest

    os.setsid()
    for stream, (name, how) in enumerate([(os.devnull, os.O_RDONLY), *[(log, os.O_WRONLY | os.O_CREAT)] * 2]):
        os.dup2(os.open(name, how | os.O_APPEND * bool(stream)), stream)
    sys.exit(pytest.main(arguments))


if __name__ == "__main__":
    main()
