"""The door: from Hydra's composition to a typed configuration."""

from radial_vicreg.compose.composition import compose
from radial_vicreg.compose.door import canonical_numbers, run_config
from radial_vicreg.compose.grid import compose_grid

__all__ = ["canonical_numbers", "compose", "compose_grid", "run_config"]
