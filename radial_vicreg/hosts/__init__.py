"""Former places of modules, kept for ``import radial_vicreg.hosts.solo``."""
