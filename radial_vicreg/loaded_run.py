"""Former place of :mod:`radial_vicreg.runs.loaded`."""

from radial_vicreg.runs.loaded import *  # noqa: F403
