"""Print pip constraints that pin the dependencies of setup.cfg to their lower bounds.

    python bash/lowest.py [EXTRA ...] > constraints.txt

The bound itself is the version (`torch>=2.6` becomes `torch==2.6`), so a bound that was never released is found out.
Extras that are not named, and requirements without a bound, are left to pip.
"""

from __future__ import annotations

import configparser
import re
import sys
from pathlib import Path

SETUP = Path(__file__).parents[1] / "setup.cfg"


def constraints(extras: list[str]) -> list[str]:
    """Return `name==version` for every lower bound of the package and of `extras`."""
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(SETUP, encoding="utf-8")
    needed = [setup["options"]["install_requires"], *(setup["options.extras_require"][extra] for extra in extras)]
    bounds = re.findall(r"^([\w-]+)>=([\w.]+)", "\n".join(needed), re.MULTILINE)
    return [f"{name}=={version}" for name, version in bounds]


if __name__ == "__main__":
    print("\n".join(constraints(sys.argv[1:])))
