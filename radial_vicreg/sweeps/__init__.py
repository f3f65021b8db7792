"""Sweeps in W&B's file format, expanded, run and followed without W&B."""

from radial_vicreg.sweeps.grid import Sweep, SweepRun, load_sweep
from radial_vicreg.sweeps.runner import run_missing
from radial_vicreg.sweeps.status import RunState, states_of

__all__ = ["RunState", "Sweep", "SweepRun", "load_sweep", "run_missing", "states_of"]
