"""Hydra plug-in: finds Radial-VICReg's configurations and registers its method with a running solo-learn."""

from __future__ import annotations

import sys

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class RadialVICRegSearchPath(SearchPathPlugin):
    """Appends the package's YAML files to the search path of every Hydra application.

    Hydra runs this at start-up, before a solo-learn script checks ``cfg.method in METHODS``. The method's own
    code (and with it PyTorch) is imported only when the running application has already imported solo-learn:
    any other Hydra application in the environment gets one more search path and nothing else.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Appends ``pkg://radial_vicreg.yaml``; called once by Hydra."""
        search_path.append(provider="radial-vicreg", path="pkg://radial_vicreg.yaml")
        if "solo.methods" in sys.modules:
            from radial_vicreg.hosts.solo.register import register

            register()
