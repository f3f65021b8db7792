"""The door: Hydra's composition of a command's configuration."""

from radial_vicreg.compose.composition import compose

__all__ = ["compose"]
