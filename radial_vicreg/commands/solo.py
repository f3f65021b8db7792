"""``radial-vicreg solo SCRIPT.py ...``: a solo-learn script, Hydra or argparse, with the method registered."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.hosts.detect import find_solo_learn

_USAGE = "usage: radial-vicreg solo SCRIPT.py [arguments of the script ...]"


def run(arguments: Sequence[str]) -> int:
    """Registers the method and runs the script as ``__main__`` in this process.

    A script that does not exist here is looked up in the solo-learn checkout, so that ``main_linear.py`` is enough.

    Args:
        arguments: the script and its arguments.

    Returns:
        The script's exit status.

    Raises:
        ValueError: no script, no such script, or solo-learn cannot be used.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"{_USAGE}\n\nFor scripts without Hydra (main_umap.py, main_knn.py), whose start-up registers nothing.")
        return 0 if arguments else 2
    solo = find_solo_learn()
    if not solo.usable or solo.location is None:
        raise ValueError(solo.reason)
    script = Path(arguments[0])
    if not script.is_file():
        script = solo.location.parent / arguments[0]
    if not script.is_file():
        raise ValueError(f"no script {arguments[0]} here or in {solo.location.parent}")
    import radial_vicreg.hosts.solo  # noqa: F401  # registers the method

    sys.argv = [str(script), *arguments[1:]]
    sys.path.insert(0, os.fspath(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0
