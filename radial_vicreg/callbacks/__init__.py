"""Lightning callbacks that both hosts share."""

from radial_vicreg.callbacks.console import EpochSummary
from radial_vicreg.callbacks.epoch_seed import EpochSeed
from radial_vicreg.callbacks.frozen_probe import FrozenLinearProbe
from radial_vicreg.callbacks.online_probes import OnlineProbes, build_online_probes
from radial_vicreg.callbacks.radius_monitor import RadiusMonitor
from radial_vicreg.callbacks.results_writer import ResultsWriter

__all__ = [
    "EpochSeed",
    "EpochSummary",
    "FrozenLinearProbe",
    "OnlineProbes",
    "RadiusMonitor",
    "ResultsWriter",
    "build_online_probes",
]
