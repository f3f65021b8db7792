"""Results files without the training."""

from __future__ import annotations

import csv
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import composed
from omegaconf import OmegaConf

from radial_vicreg.cli import main
from radial_vicreg.diagnostics import radius_histogram
from radial_vicreg.report.collect import Experiment, collect, group
from radial_vicreg.runs.provenance import describe_run


@functools.cache
def config_text(name: str, overrides: tuple[str, ...]) -> str:
    """A configuration with overrides: those of a value are merged, which takes a hundredth of Hydra's time."""
    values = [item for item in overrides if item[0] not in "+~" and "/" not in item.partition("=")[0]]
    base = composed(name, *(item for item in overrides if item not in values))
    return json.dumps(OmegaConf.to_container(OmegaConf.merge(base, OmegaConf.from_dotlist(values)), resolve=True))


@functools.cache
def _described(text: str) -> dict[str, Any]:
    return describe_run(json.loads(text), "standalone")  # asks git, which takes a while


def describe_results(config: dict[str, Any]) -> dict[str, Any]:
    described = _described(json.dumps({**config, "seed": 0}))
    own = {"config_hash": f"{described['experiment_hash']}-{config['seed']}"}
    return {**described, "config": config, "seed": config["seed"], **own}


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Writes ``runs/<number>/results.json`` of a finished run."""
    count = iter(range(10_000))

    def make(
        name: str = "cifar100/resnet18/radialvicreg_d512",
        *overrides: str,
        seed: int = 5,
        top1: float = 60.0,
        w1: float = 1.0,
        epochs: int = 1,  # curves are drawn from two on
        **changes: Any,
    ) -> Path:
        config = json.loads(config_text(name, overrides))
        config["seed"] = seed
        dim = config["method_kwargs"]["proj_output_dim"]
        if config["data"].get("multi_label"):
            figures = {"balanced_accuracy": top1, "accuracy": top1 + 20, "auroc": top1 + 5, "average_precision": top1}
        else:
            figures = {"top1": top1, "top5": min(top1 + 20, 100.0)}

        def radii(value: float) -> dict[str, Any]:
            sample = torch.linspace(dim**0.5 - value - 1, dim**0.5 - value + 1, 50)
            return {"dim": dim, "eval": {"w1_chi": value}, "histogram": radius_histogram(sample)}

        content = {
            **describe_results(config),
            "status": "finished",
            "epochs": epochs,
            "max_epochs": config["max_epochs"],
            "processes": 1,
            "probes": {
                "online_linear": figures,
                "online_mlp": {key: value - 1 for key, value in figures.items()},
                "online_projector_linear": {key: value - 2 for key, value in figures.items()},
            },
            "radii": {"initial": radii(17.0), "final": radii(w1)},
            "history": [
                {"epoch": epoch + 1, "train_vicreg_loss": 9.0 - epoch, "val_acc1": top1, "train_w1_chi": w1}
                for epoch in range(epochs)
            ],
            **changes,
        }
        file = tmp_path / "runs" / f"{next(count):04d}" / "results.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(content))
        return file

    return make


@pytest.fixture
def experiments(tmp_path: Path) -> Callable[[], list[Experiment]]:
    """Reads the experiments of the runs that were written."""
    return lambda: group(collect(tmp_path / "runs")[0])[0]


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without figures, whose drawing takes longer than all the rest."""
    monkeypatch.setattr("radial_vicreg.paper.report.draw_all", lambda experiments: [])


Cells = dict[tuple[str, str], dict[str, str]]


@pytest.fixture
def report(no_figures: None, tmp_path: Path) -> Callable[..., Cells]:
    """Writes a report to ``out`` and returns a table's lines by configuration and column."""

    def make(*words: str, number: int = 1, metric: str = "top1") -> Cells:
        assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), *words]) == 0
        with open(tmp_path / "out" / f"table{number}.csv") as stream:
            return {(row["config"], row["column"]): row for row in csv.DictReader(stream) if row["metric"] == metric}

    return make
