"""Grids: a sweep file in W&B's format and the runs that it defines."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radial_vicreg.compose.yaml_guard import read_yaml, yaml_text
from radial_vicreg.errors import UserError, did_you_mean
from radial_vicreg.names.configurations import SWEEPS, sweep_names

_PRETRAIN_COMMAND = ("${env}", "${program}", "pretrain", "--config-name")
_SWEPT_ARGUMENTS = "${args_no_hyphens}"


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep.

    Attributes:
        index: index in the grid, from 0.
        config_name: name of the configuration.
        overrides: Hydra overrides ``key=value``, as W&B's agent writes them; the swept ones last.
    """

    index: int
    config_name: str
    overrides: tuple[str, ...]

    def arguments(self, *more: str) -> list[str]:
        """List the arguments of ``radial-vicreg pretrain``, with ``more`` at the end."""
        return ["--config-name", self.config_name, *self.overrides, *more]


@dataclass(frozen=True)
class Sweep:
    """A sweep file.

    Attributes:
        name: file name without ``.yaml``.
        content: content of the file as W&B reads it.
        config_name: ``--config-name`` in its command.
        fixed: overrides that its command passes to every run. ``wandb.*`` is omitted, since the W&B logger is not
            wanted without W&B's agent.
        parameters: values by swept key, in the file's order.
    """

    name: str
    content: dict[str, Any]
    config_name: str
    fixed: tuple[str, ...]
    parameters: dict[str, tuple[Any, ...]]

    def runs(self) -> list[SweepRun]:
        """List every point of the grid; the last parameter changes fastest."""
        points = itertools.product(*self.parameters.values())
        return [
            SweepRun(index, self.config_name, (*self.fixed, *map("{}={}".format, self.parameters, point)))
            for index, point in enumerate(points)
        ]

    def for_pretrain(self) -> str:
        """Write the sweep as YAML for W&B's agent, with ``radial-vicreg pretrain`` as its program."""
        given = [part for part in self.content["command"] if "=" in str(part) and not str(part).startswith("$")]
        command = [*_PRETRAIN_COMMAND, self.config_name, *given, _SWEPT_ARGUMENTS]
        return yaml_text({**self.content, "program": "radial-vicreg", "command": command})


def load_sweep(name: str | Path) -> Sweep:
    """Read a sweep file.

    Args:
        name: a path, or the name of one of the package's sweeps below ``yaml/radialvicreg/sweeps``, for example
            ``cifar100_resnet18_d512`` or ``tables/table1``.

    Returns:
        The sweep.

    Raises:
        UserError: the file does not exist, or is not a supported grid; the message names the key and the remedy.
    """
    path = _find(name)
    content = read_yaml(path)  # W&B's own ${...} is kept
    if not isinstance(content, dict) or not isinstance(content.get("parameters"), dict):
        raise UserError(f"{path} has no `parameters`: expected a sweep file of W&B, see yaml/radialvicreg/sweeps")
    if content.get("method") != "grid":
        raise UserError(f"{path}: method {content.get('method')!r} needs W&B's server (wandb sweep); use method: grid")
    config_name, fixed = _read_command(path, content.get("command"))
    parameters = {str(key): _values(path, key, spec) for key, spec in content["parameters"].items()}
    return Sweep(path.stem, content, config_name, fixed, parameters)


def _find(name: str | Path) -> Path:
    for candidate in (Path(name), SWEEPS / f"{name}.yaml", SWEEPS / str(name)):
        if candidate.is_file():
            return candidate
    hint = did_you_mean(name, sweep_names(), what="own ones")
    raise UserError(f"{name} is neither a sweep file nor the name of a sweep; {hint}")


def _read_command(path: Path, command: Any) -> tuple[str, tuple[str, ...]]:
    parts = [str(part) for part in command] if isinstance(command, Sequence) and not isinstance(command, str) else []
    if "--config-name" not in parts[:-1] or _SWEPT_ARGUMENTS not in parts:
        raise UserError(f"{path}: `command` must contain --config-name, a configuration, and {_SWEPT_ARGUMENTS}")
    config_name = parts[parts.index("--config-name") + 1]
    fixed = tuple(part for part in parts if "=" in part and not part.startswith(("$", "-", "wandb.")))
    return config_name, fixed


def _values(path: Path, key: str, spec: Any) -> tuple[Any, ...]:
    values = None
    if isinstance(spec, Mapping):
        values = [spec["value"]] if "value" in spec else spec.get("values")
    if not isinstance(values, list) or not values:
        raise UserError(f"{path}: parameter {key} needs `values: [...]` or `value: ...`, got {spec!r}")
    for value in values:
        # W&B passes str(value): Hydra would get None as text, and a list or dictionary in Python's notation.
        if not isinstance(value, str | int | float | bool):
            raise UserError(f"{path}: parameter {key} has {value!r}; a grid accepts numbers, texts, true and false")
    return tuple(values)
