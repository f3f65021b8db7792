"""Hydra plug-in: find Radial-VICReg's configurations and register its method with a running solo-learn."""

from __future__ import annotations

import importlib.util
import os
import sys

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class RadialVICRegSearchPath(SearchPathPlugin):
    """Append the package's YAML files to the search path of every Hydra application.

    Hydra runs this at start-up, before a solo-learn script checks ``cfg.method in METHODS``. The method's own
    code (and with it PyTorch) is imported only when the running application has already imported solo-learn:
    any other Hydra application in the environment gets one more search path and nothing else.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the configuration folder; called once by Hydra."""
        folder = configuration_folder()
        if folder is not None:
            # As it is: Hydra cuts off the scheme and unquotes nothing. Not pkg://, which lists the folder with
            # importlib.resources: without an __init__.py that ends in StopIteration from Python 3.12 on, and with
            # one the folder would be a second package `yaml` beside PyYAML.
            search_path.append(provider="radial-vicreg", path=f"file://{folder}")
        if "solo.methods" in sys.modules:
            from radial_vicreg.solo.register import register

            register()


def configuration_folder() -> str | None:
    """Find the package's YAML files without importing the package.

    Returns:
        The real path of the folder (in an editable installation ``radial_vicreg/yaml`` is a link), which need not
        exist: Hydra names it in its error when a configuration is not found. None where ``radial_vicreg`` is not a
        package, for example behind a script of that name: that must not stop somebody's application.
    """
    spec = importlib.util.find_spec("radial_vicreg")
    if spec is None or not spec.submodule_search_locations:
        return None
    return os.path.realpath(os.path.join(next(iter(spec.submodule_search_locations)), "yaml"))
