"""``radial-vicreg pretrain``, from the command line to the files it leaves."""

from __future__ import annotations

import csv
import importlib.machinery
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import HOSTS, Pretrain, checkpoint_of, one_line, read_results, weights_of, write_images

from radial_vicreg import cli
from radial_vicreg.report.collect import collect
from radial_vicreg.report.collect import group as group_runs

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.mark.parametrize("host", HOSTS)
def test_a_run_leaves_results_checkpoint_and_figure(host: str, finished_run: Callable[[str], Path]) -> None:
    folder = finished_run(host)
    results = read_results(folder)
    assert results["status"] == "finished"
    assert results["host"] == host
    assert (results["epochs"], results["steps"], results["seed"]) == (2, 6, 5)
    for moment in ("initial", "final"):
        for mode in ("eval", "batch"):
            assert results["radii"][moment][mode]["w1_chi"] > 0
    assert results["radii"]["images"] == "validation"
    assert results["radii"]["final"]["epoch"] == 2
    for moment in ("untrained", "trained"):
        assert 0 <= results["probes"]["frozen_linear"][moment]["top1"] <= 100
    assert 0 <= results["probes"]["online_linear"]["top1"] <= 100
    assert results["loss_terms"]["train_radial_ce"] is not None
    assert [entry["epoch"] for entry in results["history"]] == [1, 2]
    assert results["config"]["optimizer"]["lr"] == 0.3
    names = {file.name for file in folder.iterdir()}
    figures = {"radii.png", "radii.pdf", "radii.svg"}
    assert names >= {"results.json", *figures, "checkpoints", "epochs.csv", "steps.csv"}
    assert any(name.startswith("backbone.") for name in weights_of(folder))


@pytest.mark.parametrize("host", HOSTS)
def test_the_classifier_has_its_own_rate_and_no_decay(host: str, finished_run: Callable[[str], Path]) -> None:
    run = finished_run(host)
    asked = read_results(run)["config"]["optimizer"]
    (optimizer,) = checkpoint_of(run)["optimizer_states"]
    groups = optimizer["param_groups"]
    of_the_classifier = [group for group in groups if group["name"].startswith("classifier")]
    others = [group for group in groups if group not in of_the_classifier]
    assert {group["weight_decay"] for group in of_the_classifier} == {0}
    assert 0 < asked["weight_decay"] in {group["weight_decay"] for group in others}
    ratio = asked["classifier_lr"] / asked["lr"]
    assert ratio != 1
    for group in of_the_classifier:
        assert group["initial_lr"] == pytest.approx(ratio * others[0]["initial_lr"])


def test_every_epoch_is_logged_however_short(pretrain: Pretrain) -> None:
    """The rates come from a step's log: without one, an epoch has the last one's, and none after a resume."""
    history = pretrain("+limit_train_batches=2", "diagnostics.enabled=false").results["history"]
    assert len({entry["lr-Lars/projector"] for entry in history}) == 2


def test_a_run_that_was_cut_short_is_not_handed_out_as_the_whole_one_and_has_a_folder_of_its_own(
    pretrain: Pretrain, tmp_path: Path
) -> None:
    short = ["+limit_train_batches=1", "+gradient_clip_val=0.01"]
    for more in (short, short, ["ckpt=auto"]):
        pretrain("max_epochs=1", "diagnostics.enabled=false", *more)
    steps = [read_results(file.parent)["steps"] for file in tmp_path.glob("runs/*/*/results.json")]
    assert sorted(steps) == [1, 1, 3]
    experiments, _ = group_runs(collect(tmp_path / "runs")[0])
    assert len(experiments) == 2


def test_unlabelled_images_train_without_probe_and_stay_finite(pretrain: Pretrain, tmp_path: Path) -> None:
    flat = write_images(tmp_path / "flat", classes=1, per_class=16) / "class_0"
    results = pretrain(f"data.train_path={flat}", "data.val_path=null", "data.no_labels=true", "max_epochs=1").results
    assert results["loss_terms"]["train_loss"] is not None  # null would be NaN
    assert results["radii"]["images"] == "training, augmented"
    assert results["probes"]["online_linear"]["top1"] is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("method_kwargs.radial_ce_los_weight=1", "did you mean method_kwargs.radial_ce_loss_weight"),
        ("+method_kwargs.radial_ce_los_weight=1", "did you mean method_kwargs.radial_ce_loss_weight"),
        ("method_kwargs.radial_objective=kll", "radial_objective"),
        ("method_kwargs.radial_spacing=8", "radial_spacing"),
        ("optimizer.batch_size=100", "24 images, too few for a batch of 100"),
        ("data.val_path=nowhere", "data.val_path=nowhere does not exist"),
        ("data.val_path=null", "probes.frozen_linear needs labels and data.val_path"),
        ("data.format=dali", "data.format=dali"),
        ("backbone.name=resnet19", "unknown backbone.name 'resnet19'"),
        ("host=both", "host must be one of auto, solo, standalone, got 'both'"),
        ("method=byol", "method=byol needs a loss: "),
        ("ckpt=last", "no checkpoint of this configuration"),
        ("ckpt=nowhere.ckpt", "ckpt=nowhere.ckpt is not a file"),
        pytest.param("accelerator=gpu", "PyTorch sees no GPU", marks=without_gpu),
        ("seed=[1", "seed=[1"),
        ("radialvicreg/optimizer=lers", "lers"),
    ],
)
def test_wrong_input_is_one_line_exit_status_2_and_no_folder(override: str, message: str, pretrain: Pretrain) -> None:
    refused = pretrain("probes.frozen_linear=true", override, status=2)
    error = refused.stderr.strip().splitlines()[-1]
    assert error.startswith("radial-vicreg pretrain: error:")
    assert message in error
    assert not list(refused.folder.glob("*/*"))


def test_a_configuration_of_ones_own_may_use_the_packages_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = "defaults: [/radialvicreg, _self_]\nmethod_kwargs: {radial_center: true}\nseed: 42\n"
    (tmp_path / "study.yaml").write_text(study)
    assert cli.main(["pretrain", "--config-path", str(tmp_path), "--config-name", "study", "--cfg"]) == 0
    printed = capsys.readouterr().out
    assert "radial_center: true" in printed
    assert "seed: 42" in printed


@pytest.mark.slow
def test_loggers_are_there_when_asked_for(pretrain: Pretrain) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loggers = ["loggers.tensorboard=true", "wandb.enabled=true", "wandb.offline=true"]
    folder = pretrain("max_epochs=1", "log_every_n_steps=1", *loggers).run
    assert list(folder.rglob("*.wandb"))
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    columns = {name for table in ("epochs.csv", "steps.csv") for name in next(csv.reader((folder / table).open()))}
    assert set(events.Tags()["scalars"]) | {"step"} == columns  # one name everywhere


@pytest.mark.parametrize(("key", "package"), [("loggers.tensorboard", "tensorboard"), ("wandb.enabled", "wandb")])
def test_a_logger_without_its_package_is_one_line_that_names_the_extra(
    key: str, package: str, pretrain: Pretrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec

    def find_spec(name: str, *more: Any) -> Any:
        if name == "wandb":  # the folder that W&B leaves where it was started
            return importlib.machinery.ModuleSpec(name, None)
        return None if name.startswith("tensorboard") else real(name, *more)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    refused = pretrain(f"{key}=true", status=2)
    one_line(refused.stderr, f"{key}=true needs {package}: pip install 'radial-vicreg[{package}]'")


def test_terms_are_logged_now_and_then_and_as_means_of_the_epoch(finished_run: Callable[[str], Path]) -> None:
    folder = finished_run("standalone")
    with (folder / "steps.csv").open() as stream:
        steps = [float(row["train_loss_step"]) for row in csv.DictReader(stream)]
    assert len(steps) == 6
    for epoch, entry in enumerate(read_results(folder)["history"]):
        own = steps[3 * epoch : 3 * epoch + 3]
        assert entry["train_loss"] == pytest.approx(sum(own) / 3, rel=1e-5)
