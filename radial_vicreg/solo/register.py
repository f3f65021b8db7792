"""Add the method to solo-learn's dictionary of methods."""

from __future__ import annotations

from radial_vicreg.errors import MissingPackageError, reason_of
from radial_vicreg.solo.detect import INSTALL_HINT

_METHOD_NAME = "radialvicreg"


def register() -> None:
    """Make ``method: radialvicreg`` known to every solo-learn script of this process.

    Raises:
        MissingPackageError: solo-learn cannot be imported, or is release 1.0.2 from PyPI, which has no ``METHODS`` of
            this form; the message says what to do.
    """
    try:
        from solo.methods import METHODS
    except ImportError as error:
        raise MissingPackageError(
            "Radial-VICReg's solo-learn host needs solo-learn's main branch (1.0.5 or newer; the release on PyPI, "
            f"1.0.2, is too old); importing it failed: {reason_of(error)}. {INSTALL_HINT}; or use host=standalone"
        ) from error
    from radial_vicreg.solo.method import RadialVICReg

    METHODS[_METHOD_NAME] = RadialVICReg
