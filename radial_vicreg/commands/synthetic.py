"""``radial-vicreg synthetic``: see :mod:`radial_vicreg.synthetic`."""

from __future__ import annotations

from collections.abc import Sequence


def run(arguments: Sequence[str]) -> int:
    """Hands over to the synthetic experiments' own command line.

    Args:
        arguments: command line after ``synthetic``.

    Returns:
        Exit status.
    """
    from radial_vicreg.synthetic.cli import main

    return main(list(arguments))
