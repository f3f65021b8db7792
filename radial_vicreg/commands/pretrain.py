"""``radial-vicreg pretrain [--config-name NAME] [--config-path DIR] [key=value ...]``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from radial_vicreg.commands.hydra_flags import parse_hydra_flags
from radial_vicreg.compose import run_config


def run(arguments: Sequence[str]) -> int:
    """Trains one configuration and says where its results are.

    Args:
        arguments: command line after ``pretrain``.

    Returns:
        0.

    Raises:
        UserError: wrong configuration or data.
        RunFailed: the loss stopped being a number, or a data-loading process died.
        RunStopped: SIGTERM or SIGUSR1 came.
    """
    cfg, only_print = parse_hydra_flags(
        arguments,
        default_name="radialvicreg",
        prog="radial-vicreg pretrain",
        description="Pretrain with Radial-VICReg or VICReg on solo-learn's host or the embedded one (host=...).",
    )
    if only_print:
        from omegaconf import OmegaConf

        print(OmegaConf.to_yaml(cfg, resolve=True))
        return 0
    from radial_vicreg.solo.host import choose_host
    from radial_vicreg.train.run import pretrain

    folder = pretrain(run_config(cfg), choose_host)
    if (folder / "results.json").is_file():  # only the first process writes
        print(summary(folder))
    return 0


def summary(folder: Path) -> str:
    """The last lines of a run: radii, probes, files."""
    results: dict[str, Any] = json.loads((folder / "results.json").read_text())
    lines = [f"{results['status']}: {results['epochs']} epochs, {results['steps']} steps, {results['seconds']:.0f} s"]
    radii = results.get("radii") or {}
    first, last = radii.get("initial"), radii.get("final")
    if first and last:
        lines += [
            f"radii on {last['eval']['count']:.0f} {radii['images']} images, d = {last['dim']}:",
            f"  W1 to chi  {first['eval']['w1_chi']:6.2f} -> {last['eval']['w1_chi']:6.2f}  (evaluation mode)",
            f"  W1 to chi  {first['batch']['w1_chi']:6.2f} -> {last['batch']['w1_chi']:6.2f}  (batch statistics)",
            f"  mean       {first['eval']['radius_mean']:6.2f} -> {last['eval']['radius_mean']:6.2f}"
            f"  (sqrt(d - 1) = {(last['dim'] - 1) ** 0.5:.2f})",
        ]
    probes = results.get("probes") or {}
    frozen = probes.get("frozen_linear") or {}
    if frozen.get("trained"):
        before, after = frozen["untrained"], frozen["trained"]
        lines.append(
            f"linear probe of frozen features: untrained {before['top1']:.1f} %, trained {after['top1']:.1f} %"
        )
    online = (probes.get("online_linear") or {}).get("top1")  # None for attributes
    if online is not None:
        lines.append(f"online linear probe: {online:.1f} %")
    files = [file.relative_to(folder) for file in folder.rglob("*") if file.suffix in (".ckpt", ".png", ".json")]
    lines.append(f"in {folder}: {', '.join(sorted(map(str, files)))}")
    return "\n".join(lines)
