"""Sweeps in W&B's file format, expanded, run and monitored without W&B."""

from radial_vicreg.sweeps.grid import SweepRun, load_sweep
from radial_vicreg.sweeps.runner import run_missing
from radial_vicreg.sweeps.status import states_of

__all__ = ["SweepRun", "load_sweep", "run_missing", "states_of"]
