"""Fixtures of the tests of solo-learn as a host.

The folder is not called ``solo``: pytest puts ``tests`` on the path of modules, and where solo-learn is not installed
``import solo`` would find the folder.
"""

from hosts_fixtures import fixed_loader, quiet_trainer, script_cfg, tiny_config  # noqa: F401
