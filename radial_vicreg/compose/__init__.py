"""Entry point of configurations: from Hydra's composition to a typed configuration."""

from radial_vicreg.compose.composition import compose, composed_text
from radial_vicreg.compose.points import compose_grid
from radial_vicreg.compose.resolution import arguments_config, canonical_numbers, declared_config, run_config

__all__ = [
    "arguments_config",
    "canonical_numbers",
    "compose",
    "compose_grid",
    "composed_text",
    "declared_config",
    "run_config",
]
