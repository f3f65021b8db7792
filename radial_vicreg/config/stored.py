"""Read the stored configuration of a run, from any version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radial_vicreg.config.reading import read_config
from radial_vicreg.config.schema import RunConfig
from radial_vicreg.errors import UserError


def stored_config(content: Mapping[str, Any]) -> RunConfig:
    """Convert the keys of a stored configuration to their types.

    Keys unknown to this version are ignored, and absent keys get their defaults.

    Args:
        content: ``config`` of ``results.json`` or of a checkpoint. A run has resolved it, so a ``${...}`` in it is
            plain text.

    Returns:
        The configuration.

    Raises:
        UserError: it is not the configuration of a run.
    """
    try:
        return read_config({"method": "radialvicreg", "name": "stored", **content}, "stored")
    except RecursionError as error:
        raise UserError("the configuration is nested too deeply") from error
