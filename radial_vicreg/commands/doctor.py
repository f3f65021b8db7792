"""``radial-vicreg doctor``: what is installed, which host would be used, what to do about the rest."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.commands.parser import Parser
from radial_vicreg.provenance import git_commit, versions
from radial_vicreg.solo.detect import choose_host, find_solo_learn
from radial_vicreg.solo.limits import knn_fails

_OPTIONAL = {
    "wandb": ("wandb", "W&B logging and sweeps"),
    "lightly": ("lightly", "the losses of other methods"),
    "nvidia.dali": ("dali", "DALI's data pipeline under main_pretrain.py"),
    "umap": ("umap", "solo-learn's UMAP figures"),
    "tensorboard": ("dev", "TensorBoard logging"),
}


def run(arguments: Sequence[str]) -> int:
    """Prints the report.

    Args:
        arguments: none but ``--help``.

    Returns:
        0 when at least one host can train, which is always the case once the package is installed.
    """
    Parser(prog="radial-vicreg doctor", description=__doc__).parse_args(list(arguments))
    for name, version in versions().items():
        print(f"{name:<14} {version or 'missing: pip install ' + name}")
    print(f"{'device':<14} {_device()}")
    print(f"{'Hydra plug-in':<14} {_plugin()}")
    solo = find_solo_learn()
    commit = git_commit(solo.location) if solo.location else None
    print(f"{'solo-learn':<14} {solo.reason}{f', commit {commit}' if solo.usable and commit else ''}")
    for module, (extra, purpose) in _OPTIONAL.items():
        found = _importable(module)
        print(f"{module:<14} {'yes' if found else f'no ({purpose}: pip install radial-vicreg[{extra}])'}")
    if solo.usable and (reason := knn_fails()):
        print(f"{'kNN':<14} knn_eval and main_knn.py cannot work: {reason}; use radial-vicreg probe RUN --probe knn")
    host, _ = choose_host("auto")
    print(f"\nradial-vicreg pretrain would use the {host} host.")
    return 0


def _device() -> str:
    import torch

    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return "CPU (PyTorch sees no GPU)"


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
    # Hydra passes over a folder that is missing without a word.
    return f"found, {count} configurations" if count else f"found, but no configurations in {folder}: {reinstall}"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
