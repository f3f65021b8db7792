"""Former place of :mod:`radial_vicreg.solo`. Importing it still registers the method with solo-learn."""

from __future__ import annotations

import warnings

from radial_vicreg.solo.register import register

warnings.warn(
    "radial_vicreg.hosts.solo is radial_vicreg.solo now: call radial_vicreg.solo.register.register()",
    DeprecationWarning,
    stacklevel=2,
)
register()
