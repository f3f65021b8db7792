"""Many configurations that differ in a few overrides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from radial_vicreg.compose.composition import compose
from radial_vicreg.compose.resolution import sweep_config
from radial_vicreg.config import RunConfig


def compose_grid(
    config_name: str, points: Iterable[Sequence[str]], overrides: Sequence[str] = ()
) -> Iterator[RunConfig]:
    """Compose a configuration for each point of a grid.

    Args:
        config_name: name of the configuration.
        points: overrides of each point.
        overrides: further overrides of every point.

    Yields:
        One configuration for each point, all of one name: resolving names takes longer than all the rest.

    Raises:
        UserError: a configuration that cannot be composed.
    """
    return map(sweep_config, _composed(config_name, points, overrides, reuse=True))


def composed_points(
    config_name: str, points: Iterable[Sequence[str]], overrides: Sequence[str] = ()
) -> Iterator[DictConfig]:
    """Compose each point of a grid without checking it.

    Hydra takes a quarter of a second per composition. One composition for each choice of groups is enough: the other
    overrides are set in a copy of it.

    Args:
        config_name: name of the configuration.
        points: overrides of each point.
        overrides: further overrides of every point.

    Yields:
        Hydra's configuration of each point.

    Raises:
        UserError: a configuration that cannot be composed.
    """
    return _composed(config_name, points, overrides, reuse=False)


def _composed(
    config_name: str, points: Iterable[Sequence[str]], overrides: Sequence[str], reuse: bool
) -> Iterator[DictConfig]:
    """Compose points as :func:`composed_points`.

    Args:
        config_name: name of the configuration.
        points: overrides of each point.
        overrides: further overrides of every point.
        reuse: set the next point in the configuration of the last one where both set the same keys to single values;
            a copy takes half of the time.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser = OverridesParser.create()
    bases: dict[tuple[str, ...], DictConfig] = {}
    used: dict[tuple[tuple[str, ...], frozenset[str]], DictConfig] = {}
    for point in points:
        groups = tuple(item for item in point if _chooses_group(item))
        if groups not in bases:
            bases[groups] = compose(config_name, [*point, *overrides])
        try:
            parsed = parser.parse_overrides([item for item in point if not _chooses_group(item)])
            values = {override.key_or_group: override.value() for override in parsed}
            place = groups, frozenset(values)
            is_single = not any(isinstance(value, (dict, list)) for value in values.values())
            cfg = used[place] if reuse and is_single and place in used else bases[groups].copy()
            if reuse and is_single:
                used[place] = cfg
            for key, value in values.items():
                OmegaConf.update(cfg, key, value)
        except OmegaConfBaseException:
            compose(config_name, [*point, *overrides])  # raises the error for the key
            raise
        yield cfg


def _chooses_group(override: str) -> bool:
    key = override.partition("=")[0]
    return key.startswith(("+", "~")) or "/" in key
