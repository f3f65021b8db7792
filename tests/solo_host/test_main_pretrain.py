"""solo-learn's own scripts, unmodified, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from helpers import (
    finished,
    on_two_nodes,
    read_results,
    started,
    tiny_settings,
    with_resnet,
    without,
    write_images,
)

import yaml
from radial_vicreg.runs.identity import config_hash
from radial_vicreg.solo.limits import knn_fails

pytestmark = [pytest.mark.solo, pytest.mark.slow]

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def tiny_overrides(tiny_overrides: list[str]) -> list[str]:
    """Without what only ``radial-vicreg pretrain`` reads, and with a network of solo-learn's own."""
    return without(with_resnet(tiny_overrides), "runs_dir")


def find_checkout() -> Path:
    from radial_vicreg.solo.detect import find_solo_learn

    location = find_solo_learn().location
    assert location is not None
    return location.parent


@pytest.fixture
def checkout() -> Path:
    """The checkout's scripts, to run in a folder of the test's own: nothing is edited or added there."""
    return find_checkout()


def run_folder(tmp_path: Path, method: str = "radialvicreg") -> Path:
    (results,) = tmp_path.glob(f"trained_models/{method}/*/results.json")
    return results.parent


def untouched(checkout: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(checkout), "status", "--porcelain"], capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the script without validation images, for those who only read it."""
    root = tmp_path_factory.mktemp("pretrained")
    settings = tiny_settings(write_images(root / "train"), write_images(root / "val"), root)
    given = [*without(with_resnet(settings), "runs_dir", "data.val_path"), "data.val_path=null"]
    script = find_checkout() / "main_pretrain.py"
    before = untouched(script.parent)
    done = finished(started([sys.executable, str(script), "--config-name", "radialvicreg", *given], root))
    assert done.returncode == 0, done.stderr[-2000:]
    assert untouched(script.parent) == before
    return run_folder(root)


def test_config_name_alone_trains_the_method(pretrained: Path) -> None:
    results = read_results(pretrained)
    assert (results["status"], results["host"], results["epochs"], results["steps"]) == ("finished", "solo", 2, 6)
    assert results["radii"]["images"] == "training, augmented"
    assert results["radii"]["final"]["eval"]["w1_chi"] > 0
    assert results["config"]["optimizer"]["lr"] == 0.3
    assert list(pretrained.glob("*-ep=1.ckpt"))
    assert (pretrained / "radii.png").is_file()


@pytest.mark.parametrize("flag", ["--config-dir", "--config-path"])
def test_a_folder_that_extends_ours_does_not_fill_our_groups(
    flag: str, checkout: Path, run_python: Run, tmp_path: Path
) -> None:
    own = tmp_path / "own" / "shared" / "optimizer"
    own.mkdir(parents=True)
    (own / "lars.yaml").write_text("# @package _global_\noptimizer: {name: sgd, lr: 7}\n")
    (tmp_path / "own" / "mine.yaml").write_text("defaults: [radialvicreg, _self_]\nseed: 77\n")
    script = str(checkout / "main_pretrain.py")
    place = (flag, str(tmp_path / "own"))
    done = run_python(script, *place, "--config-name", "mine", "radialvicreg/backbone=vit_tiny", "--cfg", "job")
    assert done.returncode == 0, done.stderr[-2000:]
    found = yaml.safe_load(done.stdout)
    assert (found["seed"], found["backbone"]["name"]) == (77, "vit_tiny")
    assert (found["optimizer"]["name"], found["optimizer"]["lr"]) == ("lars", 0.3)


def test_a_configuration_folder_of_ones_own_works_as_well(
    checkout: Path, tiny_overrides: list[str], run_python: Run, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.yaml").write_text("defaults:\n  - /radialvicreg\n  - _self_\nseed: 42\n")
    done = run_python(
        str(checkout / "main_pretrain.py"),
        "--config-path",
        str(tmp_path / "mine"),
        "--config-name",
        "study",
        *tiny_overrides,
        "max_epochs=1",
        PYTHONWARNINGS="default",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    # 32-pixel network, 224-pixel validation images: said once, and the monitor resizes
    assert "validation images have 224 pixels but the network trains on 32" in done.stderr
    results = read_results(run_folder(tmp_path))
    assert results["seed"] == 42
    rates = {key: results["config"]["optimizer"][key] for key in ("lr", "classifier_lr")}
    assert rates == {"lr": 0.3, "classifier_lr": 0.1}  # as written, where solo-learn has scaled them
    assert results["radii"]["images"] == "validation"
    assert results["probes"]["online_linear"]["top1"] is not None


def test_two_processes_on_cpus_are_two_nodes_of_one_device(
    checkout: Path, tiny_overrides: list[str], tmp_path: Path
) -> None:
    two = ["devices='1'", "num_nodes=2", "strategy=ddp", "optimizer.batch_size=4", "data.val_path=null", "max_epochs=1"]
    script = str(checkout / "main_pretrain.py")
    nodes = on_two_nodes([script, "--config-name", "radialvicreg", *tiny_overrides, *two], tmp_path)
    assert [node.returncode for node in nodes] == [0, 0], nodes[0].stderr[-2000:] + nodes[1].stderr[-2000:]
    folder = run_folder(tmp_path)
    results = read_results(folder)
    assert (results["status"], results["processes"], results["steps"]) == ("finished", 2, 3)
    assert results["config"]["optimizer"]["lr"] == 0.3
    assert results["config_hash"] == config_hash(results["config"], processes=2)
    (checkpoint,) = folder.glob("*.ckpt")
    (states,) = torch.load(checkpoint, weights_only=False)["optimizer_states"]
    assert states["param_groups"][0]["initial_lr"] == pytest.approx(0.3 * 4 * 2 / 256)


def test_a_checkpoint_of_another_run_or_other_images_is_refused(
    checkout: Path, tiny_overrides: list[str], run_python: Run, tmp_path: Path
) -> None:
    def run(*overrides: str) -> CompletedProcess[str]:
        script = [str(checkout / "main_pretrain.py"), "--config-name", "radialvicreg"]
        return run_python(*script, *tiny_overrides, "data.val_path=null", "max_epochs=1", *overrides)

    done = run()
    assert done.returncode == 0, done.stderr[-2000:]
    folder = run_folder(tmp_path)
    (checkpoint,) = folder.glob("*.ckpt")
    last = folder / "last.ckpt"
    last.write_text(f"{checkpoint.name}\n")  # as on a file system without links
    done = run(f"resume_from_checkpoint='{last}'")
    assert done.returncode == 0, done.stderr[-2000:]
    last.unlink()
    before = (folder / "results.json").read_bytes()
    done = run("optimizer.lr=0.001", f"resume_from_checkpoint='{checkpoint}'")
    assert done.returncode != 0
    assert f"resume_from_checkpoint={checkpoint} is of another run: optimizer.lr is 0.3 there" in done.stderr
    done = run("max_epochs=2", f"resume_from_checkpoint='{checkpoint}'")
    assert "max_epochs is 1 there and 2 here" in done.stderr
    done = run(f"data.val_path={tmp_path / 'val'}")  # the same name, which auto-resume finds
    assert done.returncode != 0
    found = f"{checkpoint.name}, which was "  # auto-resume looks below the working directory
    assert f"{found}validated on other images (none and 2:" in done.stderr
    write_images(tmp_path / "larger", size=64)
    done = run(f"data.train_path={tmp_path / 'larger'}")
    assert done.returncode != 0
    assert f"{found}trained on other images (2:" in done.stderr
    assert (folder / "results.json").read_bytes() == before
    done = run("method_kwargs.radial_ce_loss_weight=10")  # with what differs in a weight, auto-resume begins anew
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Resuming from previous checkpoint" not in done.stdout


def write_linear_configuration(path: Path, checkpoint: Path, train: Path, val: Path) -> None:
    """A configuration of main_linear.py."""
    path.write_text(
        f"""
name: linear
pretrained_feature_extractor: {checkpoint}
backbone: {{name: resnet18}}
pretrain_method: radialvicreg
data: {{dataset: custom, train_path: {train}, val_path: {val}, format: image_folder, num_workers: 0}}
optimizer: {{name: sgd, batch_size: 8, lr: 0.1, weight_decay: 0}}
scheduler: {{name: step, lr_decay_steps: [1]}}
checkpoint: {{enabled: false}}
auto_resume: {{enabled: false}}
max_epochs: 1
devices: "1"
accelerator: cpu
strategy: auto
precision: 32
hydra: {{output_subdir: null, run: {{dir: .}}}}
"""
    )


def test_main_linear_runs_end_to_end_on_the_checkpoint(
    pretrained: Path, run_python: Run, tmp_path: Path, image_folder: Callable[..., Path]
) -> None:
    train, val = image_folder("train5", classes=5), image_folder("val5", classes=5)  # its top-5 needs five classes
    (checkpoint,) = pretrained.glob("*.ckpt")
    write_linear_configuration(tmp_path / "linear.yaml", checkpoint, train, val)
    done = run_python(
        "-m", "radial_vicreg.cli", "solo", "main_linear.py", "--config-path", str(tmp_path), "--config-name", "linear"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "`Trainer.fit` stopped: `max_epochs=1` reached" in done.stdout + done.stderr


#: Runs main_linear.py and prints what its ``strict=False`` would hide.
PRINTS_WHAT_WAS_LOADED = """
import runpy, sys, torch
load = torch.nn.Module.load_state_dict
def loaded(*arguments, **keywords):
    result = load(*arguments, **keywords)
    print("loaded:", result, flush=True)
    return result
torch.nn.Module.load_state_dict = loaded
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def test_micro_batches_work_and_main_linear_probes_the_trained_weights(
    checkout: Path, tiny_overrides: list[str], run_python: Run, tmp_path: Path, image_folder: Callable[..., Path]
) -> None:
    script = [str(checkout / "main_pretrain.py"), "--config-name", "radialvicreg", *tiny_overrides]
    more = ["data.val_path=null", "max_epochs=1", "auto_resume.enabled=false"]
    done = run_python(*script, *more, "optimizer.micro_batch_size=3")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("BatchNorm layers of resnet18 have the statistics of at most 3 images, not of 8") == 1
    (checkpoint,) = run_folder(tmp_path).glob("*.ckpt")
    weights = torch.load(checkpoint, weights_only=False)["state_dict"]
    assert int(weights["backbone.bn1.num_batches_tracked"]) == 3 * 2 * 3  # steps, views, micro-batches

    train, val = image_folder("train5", classes=5), image_folder("val5", classes=5)
    write_linear_configuration(tmp_path / "linear.yaml", checkpoint, train, val)
    launcher = tmp_path / "launcher.py"
    launcher.write_text(PRINTS_WHAT_WAS_LOADED)
    linear = [str(checkout / "main_linear.py"), "--config-path", str(tmp_path), "--config-name", "linear"]
    done = run_python(str(launcher), *linear)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "loaded: <All keys matched successfully>" in done.stdout

    done = run_python(*script, *more, "optimizer.micro_batch_size=2")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "optimizer.micro_batch_size=2 is too small for the BatchNorm layers of resnet18" in done.stderr


@pytest.mark.parametrize("script", ["main_knn.py", "main_umap.py"])
def test_scripts_without_hydra_build_the_method_from_args_json(
    script: str, pretrained: Path, run_python: Run, image_folder: Callable[..., Path]
) -> None:
    """On a CPU both stop when they move data to CUDA, which is after the method was built and loaded.

    With a current torchmetrics, solo-learn's kNN cannot work, and that is said at once.
    """
    pytest.importorskip("umap" if script == "main_umap.py" else "torch")
    images = str(image_folder())
    common = ["--dataset", "custom", "--train_data_path", images, "--val_data_path", images]
    common += ["--pretrained_checkpoint_dir", str(pretrained), "--batch_size", "8", "--num_workers", "0"]
    knn = ["--k", "2", "--distance_function", "cosine", "--feature_type", "backbone", "--temperature", "0.1"]
    done = run_python("-m", "radial_vicreg.cli", "solo", script, *common, *(knn if script == "main_knn.py" else []))
    assert "KeyError" not in done.stderr
    if script == "main_knn.py" and knn_fails():
        assert "`radial-vicreg probe RUN --probe knn` is a kNN that works" in done.stderr
        return
    assert "CUDA" in done.stderr or "NVIDIA" in done.stderr, done.stderr[-2000:]
