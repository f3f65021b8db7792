"""A probe is one class and its name: docs/architecture.md, "To add", done in a folder of the test."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import words_in_texts
from torch.utils.data import DataLoader, TensorDataset

from radial_vicreg import probes
from radial_vicreg.cli import COMMANDS, main
from radial_vicreg.cli.completion import command_parser
from radial_vicreg.config import ProbesConfig
from radial_vicreg.config.reading import NO_PROBES
from radial_vicreg.names import probes as probe_names
from radial_vicreg.probes.base import Online, Probe
from radial_vicreg.probes.linear import LinearProbe
from radial_vicreg.probes.metrics import ProbeMetrics
from radial_vicreg.probes.registry import probe_class, probe_classes, switched_on
from radial_vicreg.report.collect import collect, group, probe_figure
from radial_vicreg.report.experiments import experiment_csv, experiment_rows
from radial_vicreg.runs.results import Cost, ProbeFigures, Probes
from radial_vicreg.train.callbacks.frozen_probe import FrozenProbe

NEAREST_MEAN = '''
"""Nearest class mean: a probe that only the test has."""

import torch

from radial_vicreg.probes.base import Probe


class NearestMeanProbe(Probe):
    """The class whose mean is nearest, after features are raised to a power."""

    name = "nearest_mean"
    label = "nearest mean"
    choice = "power"

    def __init__(self, powers=(1.0, 0.5), seed=0):
        super().__init__(powers, seed)

    def _fit(self, features, encoded, candidate):
        self._power = candidate
        raised = self._raised(features)
        self._means = torch.stack([raised[encoded == k].mean(0) for k in range(self._targets.outputs)])

    def _figures(self, features, encoded):
        return self._targets.score(-torch.cdist(self._raised(features), self._means), encoded)

    def _raised(self, features):
        return features.sign() * features.abs() ** self._power
'''


#: Modules that name a probe besides its class and ``names/probes.py``, and why.
NAMED_BESIDES = {
    "config/sections.py": {"linear", "kNN", "MLP"},  # what a key means; a warm-up
    "config/schema.py": {"kNN"},
    "solo/limits.py": {"kNN"},  # solo-learn's
    "cli/commands/doctor.py": {"kNN", "knn"},
    "solo/method.py": {"linear"},  # what `radial-vicreg probe` does
    "cli/commands/solo.py": {"kNN", "knn"},
    "paper/cells.py": {"mlp"},  # the paper's table 3
    "cli/commands/probe.py": {"MLP", "knn"},  # help, which loads no PyTorch
    "gaussianity/backbones.py": {"linear"},  # layers
    "diagnostics/gaussianize.py": {"linear"},  # combinations
    "paper/synthetic/figure1.py": {"linear"},  # schedules
    "paper/synthetic/rates.py": {"linear"},
}


@pytest.fixture
def add_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Does what the recipe says: a module with a class, and its name in the list."""

    def add(name: str, source: str) -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (folder / f"{name}.py").write_text(source)
        monkeypatch.setattr(probes, "__path__", [str(folder), *probes.__path__])
        monkeypatch.setattr(probe_names, "PROBES", (*probe_names.PROBES, name))
        monkeypatch.delitem(sys.modules, f"radial_vicreg.probes.{name}", raising=False)

    yield add
    for name in set(probe_names.PROBES) - {"linear", "mlp", "knn"}:
        sys.modules.pop(f"radial_vicreg.probes.{name}", None)


def test_a_new_probe_is_offered_measured_kept_and_reported(
    add_probe: Callable, finished_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_probe("nearest_mean", NEAREST_MEAN)
    parser = command_parser(COMMANDS, "probe")
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    (option,) = (found for found in commands.choices["probe"]._actions if found.dest == "probe")
    assert "nearest_mean" in option.choices  # what the shell completes
    assert main(["probe", "--help"]) == 0
    assert "nearest_mean" in capsys.readouterr().out
    run = tmp_path / "runs" / "one"
    shutil.copytree(finished_run("standalone"), run)
    capsys.readouterr()
    command = ["probe", str(run), "--probe", "nearest_mean", "--workers", "0", "--add-to-results"]
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("nearest_mean probe of 24 encoder features (epoch")
    probes_of_run = json.loads((run / "results.json").read_text())["probes"]
    assert "online_linear" in probes_of_run
    found = probes_of_run["offline_nearest_mean_encoder"]
    assert found["chosen"].keys() == {"power"}
    experiments, _ = group(collect(run)[0])
    header, body = experiment_rows(experiments)
    (cell,) = body[0][header.index("offline nearest mean (%)")]
    assert cell.text == f"{found['top1']:.2f}"
    assert "offline nearest mean (%) mean" in experiment_csv(experiments)


def test_an_incomplete_probe_is_refused_with_what_it_lacks(add_probe: Callable) -> None:
    for left_out, instead, said in (
        ('    label = "nearest mean"\n', "", "NearestMeanProbe has no label"),
        ('"nearest_mean"', '"mean"', "NearestMeanProbe has the name 'mean', but its module is nearest_mean"),
        (", seed=0):", "):", "NearestMeanProbe takes no seed"),
        ("def __init__", "def build", "NearestMeanProbe has no __init__ with its candidates"),
        ("(Probe)", "", "radial_vicreg.probes.nearest_mean must define one subclass of Probe, found 0"),
    ):
        assert left_out in NEAREST_MEAN
        add_probe("nearest_mean", NEAREST_MEAN.replace(left_out, instead))
        with pytest.raises(TypeError, match=said):
            probe_class("nearest_mean")


def test_an_incomplete_use_during_a_training_is_refused_with_what_it_lacks() -> None:
    for online, said in (
        (Online("toy", "backbone", "batches", "encoder_mlp"), "features 'backbone'"),
        (Online("toy", "encoder", "bank"), "has no switch in ProbesConfig"),
        (Online("toy", "encoder", "batches", "encoder_mlp", ("toy_lr",)), "ProbesConfig has no toy_lr"),
        (Online("toy", "encoder", "batches", "encoder_mlp"), "learns from batches, but has no head"),
    ):
        with pytest.raises(TypeError, match=said):
            type("ToyProbe", (Probe,), {"name": "toy", "label": "toy", "choice": "n", "online": (online,)})


def test_every_switch_of_a_probe_is_a_key_that_a_class_has_and_null_switches_them_all_off() -> None:
    switches = {use.switch for probe in probe_classes() for use in probe.online if use.switch is not None}
    switches |= {probe_names.frozen_key(probe.name) for probe in probe_classes() if probe.frozen is not None}
    assert switches == {name for name, field in ProbesConfig.model_fields.items() if field.annotation is bool}
    assert dict.fromkeys(switches, False) == NO_PROBES
    assert switched_on(ProbesConfig(**NO_PROBES)) == []


def test_every_setting_of_the_probes_is_read_by_a_class() -> None:
    """A figure that was measured with another value must not be averaged with the others."""
    read = {key for probe in probe_classes() for use in probe.online for key in use.settings}
    settings = {name for name, field in ProbesConfig.model_fields.items() if field.annotation is not bool}
    assert read == settings - {"knn_neighbours"}  # each k has a name of its own
    measured = {key for key in probe_figure("online_knn7", "top1").settings if key.startswith("probes.")}
    assert measured == {"probes.knn_temperature", "probes.knn_bank"}


def test_the_figures_of_results_are_those_that_probes_compute() -> None:
    computed = []
    for multi_label in (False, True):
        metrics = ProbeMetrics(2, multi_label, over_processes=False)
        targets = torch.tensor([[0, 1], [1, 0]]) if multi_label else torch.tensor([0, 1])
        metrics.update(torch.eye(2), targets)
        computed += [name for name in metrics.compute() if name != "per_attribute"]
    names = [*probe_names.CLASS_METRICS, *probe_names.ATTRIBUTE_METRICS]
    assert sorted(computed) == sorted(names)
    assert ProbeFigures.model_fields.keys() - {"origin"} == set(names)


def test_the_frozen_linear_probe_finds_its_state_in_checkpoints_of_earlier_releases() -> None:
    images = TensorDataset(torch.zeros(2, 3, 8, 8), torch.arange(2))
    assert FrozenProbe(LinearProbe, images, DataLoader(images)).state_key == "FrozenLinearProbe"


def test_results_have_a_field_for_every_frozen_probe_and_its_cost() -> None:
    frozen = {probe_names.frozen_key(probe.name) for probe in probe_classes() if probe.frozen is not None}
    assert {name for name in Probes.model_fields if name.startswith("frozen_")} == frozen
    assert {f"{name}_{part}" for name in frozen for part in ("seconds", "memory_mb")} <= Cost.model_fields.keys()


def test_probes_are_named_by_their_classes_alone() -> None:
    found = words_in_texts({name for probe in probe_classes() for name in (probe.name, probe.label)})
    own = {"names/probes.py", *(f"probes/{name}.py" for name in probe_names.PROBES)}
    assert own <= found.keys()
    named = {module: words for module, words in found.items() if module not in own}
    assert named == NAMED_BESIDES, "ask radial_vicreg.probes.registry, or radial_vicreg.names.probes for HOST_PROBE"
