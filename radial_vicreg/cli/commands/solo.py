"""``radial-vicreg solo SCRIPT.py ...``: run a solo-learn script (Hydra or argparse) with the method registered."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from radial_vicreg.cli.parser import example_text
from radial_vicreg.errors import UserError

_USAGE = "usage: radial-vicreg solo SCRIPT.py [arguments of the script ...]"
_EXAMPLE = (
    "radial-vicreg solo main_umap.py --dataset cifar10 --pretrained_checkpoint_dir trained_models/radialvicreg/RUN"
)


def run(arguments: Sequence[str]) -> int:
    """Register the method and run the script as ``__main__`` in this process.

    solo-learn is searched for next to the script, as Python does, then among the installed packages, then in the
    working directory. A script that does not exist in the working directory is looked up in solo-learn's checkout, so
    that ``main_linear.py`` is enough.

    Args:
        arguments: the script and its arguments.

    Returns:
        The script's exit status; 1 if the script raised an exception, whose traceback is printed as Python does.

    Raises:
        UserError: the script is not given or does not exist, solo-learn cannot be used, or the script is unsupported.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        text = f"{_USAGE}\n\nFor scripts without Hydra (main_umap.py), whose start-up registers nothing.\n"
        print((text + example_text(_EXAMPLE)).rstrip())
        return 0 if arguments else 2
    from radial_vicreg.solo.detect import find_checkout, import_solo_learn
    from radial_vicreg.solo.limits import knn_fails

    script = Path(arguments[0])
    if script.is_file():
        sys.path.insert(0, os.fspath(script.resolve().parent))
    find_checkout(Path.cwd())
    solo = import_solo_learn()
    if not solo.usable or solo.location is None:
        raise UserError(solo.reason)
    if not script.is_file():
        script = solo.location.parent / arguments[0]
        sys.path.insert(0, os.fspath(script.parent))
    if not script.is_file():
        raise UserError(f"no script {arguments[0]} here or in {solo.location.parent}")
    if script.name == "main_knn.py" and (reason := knn_fails()):
        raise UserError(
            f"main_knn.py does not work: {reason}; `radial-vicreg probe RUN --probe knn` is a kNN that works"
        )
    from radial_vicreg.solo.register import register

    register()

    sys.argv = [str(script), *arguments[1:]]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)  # sys.exit("a text")
        return 1
    except Exception as error:  # raised by the script, so it is not wrong input of this command
        traceback.print_exception(type(error), error, _of_the_script(error.__traceback__, script))
        return 1
    return 0


def _of_the_script(frames: TracebackType | None, script: Path) -> TracebackType | None:
    """Omit the frames of this command and of runpy, unless the script failed to compile."""
    first = frames
    while first is not None and Path(first.tb_frame.f_code.co_filename) != script:
        first = first.tb_next
    return first or frames
