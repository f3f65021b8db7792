"""Former place of :mod:`radial_vicreg.runs.results`."""

from radial_vicreg.runs.results import *  # noqa: F403
