"""The forms that a source of embeddings may have. Without PyTorch."""

from __future__ import annotations

import os

from radial_vicreg.errors import UserError

FORMS = "a run's folder, a checkpoint, an exported folder, FILE.npy, timm:NAME or torchvision:NAME"

LIBRARIES = ("timm", "torchvision")
"""Libraries whose backbones are named ``LIBRARY:NAME``."""

PREFIXES = tuple(f"{library}:" for library in LIBRARIES)


def require_source(name: str) -> None:
    """Check that a source exists, without opening it.

    Args:
        name: as given to ``radial-vicreg diagnose``; the name of a library's backbone is looked up when it is built.

    Raises:
        UserError: there is no such file or folder.
    """
    if not name.startswith(PREFIXES) and not os.path.lexists(name):
        raise UserError(f"{name} does not exist; expected {FORMS}")
