"""``radial-vicreg doctor``: what is installed, which host would be used, what to do about the rest."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from radial_vicreg.commands.parser import Parser
from radial_vicreg.solo.detect import choose_host, find_solo_learn

_OPTIONAL = {
    "wandb": ("wandb", "W&B logging and sweeps"),
    "lightly": ("lightly", "the losses of other methods"),
    "nvidia.dali": ("dali", "DALI's data pipeline under main_pretrain.py"),
    "umap": ("umap", "solo-learn's UMAP figures"),
    "tensorboard": ("dev", "TensorBoard logging"),
}


def parser() -> Parser:
    """Make the parser of this command."""
    return Parser(prog="radial-vicreg doctor", description=__doc__)


def run(arguments: Sequence[str]) -> int:
    """Print the report.

    Args:
        arguments: none but ``--help``.

    Returns:
        0 when at least one host can train, which is always the case once what the package needs can be imported.
    """
    parser().parse_args(list(arguments))
    from radial_vicreg.provenance import git_commit, versions
    from radial_vicreg.solo.limits import knn_fails

    for name, version in versions().items():
        print(f"{name:<14} {version or 'missing: pip install ' + name}")
    found = _ask()
    solo = found["host"] == "solo"
    location = find_solo_learn().location
    commit = git_commit(location) if location and solo else None
    print(f"{'device':<14} {found['device']}")
    print(f"{'Hydra plug-in':<14} {_plugin()}")
    print(f"{'solo-learn':<14} {found['reason']}{f', commit {commit}' if commit else ''}")
    for module, (extra, purpose) in _OPTIONAL.items():
        there = _importable(module)
        print(f"{module:<14} {'yes' if there else f'no ({purpose}: pip install radial-vicreg[{extra}])'}")
    if solo and (reason := knn_fails()):
        print(f"{'kNN':<14} knn_eval and main_knn.py cannot work: {reason}; use radial-vicreg probe RUN --probe knn")
    print(f"\nradial-vicreg pretrain would use the {found['host']} host." if found["host"] else "\nNo host can train.")
    return 0 if found["host"] else 1


def look() -> dict[str, Any]:
    """Import PyTorch and solo-learn, and say what they see here; for a process of its own.

    Returns:
        ``device``: one line; ``host`` and ``reason``: of :func:`~radial_vicreg.solo.detect.choose_host`.
    """
    import torch

    device = "CPU (PyTorch sees no GPU)"
    if torch.cuda.is_available():
        device = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    host, reason = choose_host("auto")
    return {"device": device, "host": host, "reason": reason}


def _ask() -> dict[str, Any]:
    """Run :func:`look` in another process with this one's path: a broken library must not end the report."""
    code = f"import json, sys; sys.path[:] = {sys.path!r}; from {__name__} import look; print(json.dumps(look()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # after what the imports may print
        return answer
    told = (
        f"unknown: importing PyTorch ended with status {done.returncode}, {done.stderr.strip().rpartition(chr(10))[2]}"
    )
    return {"device": told, "host": None, "reason": told}


def _plugin() -> str:
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    reinstall = "reinstall radial-vicreg with pip in this environment"
    names = [plugin.__name__ for plugin in Plugins.instance().discover(SearchPathPlugin)]
    if "RadialVICRegSearchPath" not in names:
        return f"not found: {reinstall}"
    from hydra_plugins.radial_vicreg_plugin import configuration_folder

    folder = configuration_folder()
    count = sum(1 for _ in Path(folder).rglob("*.yaml")) if folder else 0
    # Hydra ignores a missing folder without a word.
    return f"found, {count} configurations" if count else f"found, but no configurations in {folder}: {reinstall}"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
