"""The configuration of a run: every key with its type, range, default and meaning, once."""

from radial_vicreg.config.reading import read_config
from radial_vicreg.config.schema import Rates, RunConfig
from radial_vicreg.config.sections import (
    AugmentationConfig,
    BackboneConfig,
    DataConfig,
    MethodConfig,
    OptimizerConfig,
    ProbesConfig,
    SchedulerConfig,
)

__all__ = [
    "AugmentationConfig",
    "BackboneConfig",
    "DataConfig",
    "MethodConfig",
    "OptimizerConfig",
    "ProbesConfig",
    "Rates",
    "RunConfig",
    "SchedulerConfig",
    "read_config",
]
