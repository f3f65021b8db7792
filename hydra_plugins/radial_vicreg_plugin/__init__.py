"""Hydra plug-in: find Radial-VICReg's configurations and register its method with a running solo-learn."""

from __future__ import annotations

import importlib.util
import os
import sys

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

_SOLO_LEARN = "solo.methods"
_OUR_COMPOSITION = "radial_vicreg.compose"


class RadialVICRegSearchPath(SearchPathPlugin):
    """Append the package's YAML files to the search path if solo-learn or this package composes.

    Hydra calls this class at the start of every application in the environment and at every composition. All plug-ins
    share one search path. An application that has imported neither solo-learn nor this package's composition must not
    list or read our groups, so nothing is appended for it. A solo-learn script checks ``cfg.method in METHODS`` after
    this call. Only in such a script is the method's code imported, and PyTorch with it.
    """

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the configuration folder where it is needed; called by Hydra once for each composition."""
        if _SOLO_LEARN not in sys.modules and _OUR_COMPOSITION not in sys.modules:
            return
        folder = configuration_folder()
        if folder is not None:
            # The path is not quoted: Hydra strips the scheme and unquotes nothing. pkg:// would list the folder with
            # importlib.resources: without an __init__.py that ends in StopIteration from Python 3.12 on, and with
            # one the folder would be a second package `yaml` next to PyYAML.
            search_path.append(provider="radial-vicreg", path=f"file://{folder}")
        if _SOLO_LEARN in sys.modules:
            from radial_vicreg.solo.register import register

            register()


def configuration_folder() -> str | None:
    """Find the package's YAML files without importing the package.

    Returns:
        The real path of the folder; in an editable installation ``radial_vicreg/yaml`` is a link. The folder need not
        exist: Hydra names it in its error when a configuration is not found. None if ``radial_vicreg`` is not a
        package, for example if a script of that name hides it. This must not stop another application.
    """
    spec = importlib.util.find_spec("radial_vicreg")
    if spec is None or not spec.submodule_search_locations:
        return None
    return os.path.realpath(os.path.join(next(iter(spec.submodule_search_locations)), "yaml"))
