"""Read the configuration that a run has left, of any version so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radial_vicreg.config.reading import read_config
from radial_vicreg.config.schema import RunConfig
from radial_vicreg.errors import UserError


def stored_config(content: Mapping[str, Any]) -> RunConfig:
    """Give the keys of a stored configuration their types.

    Keys that this version does not know are passed over, and absent ones stand for their defaults.

    Args:
        content: ``config`` of ``results.json`` or of a checkpoint. A run has resolved it: a ``${...}`` in it is text.

    Returns:
        The configuration.

    Raises:
        UserError: no run has left it.
    """
    try:
        return read_config({"method": "radialvicreg", "name": "stored", **content}, "stored")
    except RecursionError as error:
        raise UserError("it is nested too deeply") from error
