"""Former place of :mod:`radial_vicreg.diagnostics.gaussianize`."""

from radial_vicreg.diagnostics.gaussianize import *  # noqa: F403
