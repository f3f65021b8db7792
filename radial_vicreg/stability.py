"""Former place of :mod:`radial_vicreg.nets.stability`."""

from radial_vicreg.nets.stability import *  # noqa: F403
