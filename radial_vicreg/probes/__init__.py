"""Probes of frozen features."""

from radial_vicreg.probes.knn import KNNProbe
from radial_vicreg.probes.linear import LinearProbe
from radial_vicreg.probes.mlp import MLPProbe

__all__ = ["KNNProbe", "LinearProbe", "MLPProbe"]
