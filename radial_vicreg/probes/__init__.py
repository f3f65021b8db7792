"""Probes of frozen features."""

from radial_vicreg.probes.linear import LinearProbe

__all__ = ["LinearProbe"]
