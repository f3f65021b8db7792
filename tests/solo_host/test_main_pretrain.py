"""solo-learn's own scripts, unmodified, in processes of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from helpers import Typed, read_results, tiny_settings, type_rows, with_resnet, without, write_images

import yaml
from radial_vicreg.solo.limits import knn_fails

pytestmark = [pytest.mark.solo, pytest.mark.slow]

Run = Callable[..., CompletedProcess[str]]


def find_checkout() -> Path:
    from radial_vicreg.solo.detect import find_solo_learn

    location = find_solo_learn().location
    assert location is not None
    return location.parent


def run_folder(tmp_path: Path, method: str = "radialvicreg") -> Path:
    (results,) = tmp_path.glob(f"trained_models/{method}/*/results.json")
    return results.parent


def untouched(checkout: Path) -> str:
    return subprocess.run(
        ["git", "-C", str(checkout), "status", "--porcelain"], capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Typed]:
    """Type three command lines in one process: our configuration alone, and two configurations of a user's folder."""
    root = tmp_path_factory.mktemp("typed")
    settings = tiny_settings(write_images(root / "train"), write_images(root / "val"), root)
    given = without(with_resnet(settings), "runs_dir")
    own = root / "own" / "shared" / "optimizer"
    own.mkdir(parents=True)
    (own / "lars.yaml").write_text("# @package _global_\noptimizer: {name: sgd, lr: 7}\n")
    (root / "own" / "mine.yaml").write_text("defaults: [radialvicreg, _self_]\nseed: 77\n")
    (root / "own" / "study.yaml").write_text("defaults:\n  - /radialvicreg\n  - _self_\nseed: 42\n")
    rows = {
        "alone": ["--config-name", "radialvicreg", *given, "data.val_path=null"],
        "--config-dir": ["--config-dir", str(root / "own"), "--config-name", "mine", "--cfg", "job"],
        "--config-path": ["--config-path", str(root / "own"), "--config-name", "study", *given, "max_epochs=1"],
    }
    rows["--config-dir"].append("radialvicreg/backbone=vit_tiny")
    before = untouched(find_checkout())
    found = dict(zip(rows, type_rows(list(rows.values()), root), strict=True))
    assert {name: done.stderr[-2000:] for name, done in found.items() if done.returncode} == {}
    assert untouched(find_checkout()) == before
    return found


@pytest.fixture(scope="module")
def pretrained(typed: dict[str, Typed]) -> Path:
    """A run of the script without validation images, for those who only read it."""
    return run_folder(typed["alone"].folder)


def test_config_name_alone_trains_the_method(pretrained: Path) -> None:
    results = read_results(pretrained)
    assert (results["status"], results["host"], results["epochs"], results["steps"]) == ("finished", "solo", 2, 6)
    assert results["radii"]["images"] == "training, augmented"
    assert results["radii"]["final"]["eval"]["w1_chi"] > 0
    rates = {key: results["config"]["optimizer"][key] for key in ("lr", "classifier_lr")}
    assert rates == {"lr": 0.3, "classifier_lr": 0.1}  # as written, where solo-learn has scaled the first alone
    assert list(pretrained.glob("*-ep=1.ckpt"))
    assert (pretrained / "radii.png").is_file()


def test_a_folder_that_extends_ours_does_not_fill_our_groups(typed: dict[str, Typed]) -> None:
    found = yaml.safe_load(typed["--config-dir"].stdout)
    assert (found["seed"], found["backbone"]["name"]) == (77, "vit_tiny")
    assert (found["optimizer"]["name"], found["optimizer"]["lr"]) == ("lars", 0.3)


def test_a_configuration_folder_of_ones_own_works_as_well(typed: dict[str, Typed]) -> None:
    done = typed["--config-path"]
    # 32-pixel network, 224-pixel validation images: said once, and the monitor resizes
    assert done.stderr.count("validation images have 224 pixels but the network trains on 32") == 1
    results = read_results(run_folder(done.folder))
    assert (results["seed"], results["config"]["optimizer"]["name"]) == (42, "lars")
    rates = {key: results["config"]["optimizer"][key] for key in ("lr", "classifier_lr")}
    assert rates == {"lr": 0.3, "classifier_lr": 0.1}  # as written, where solo-learn has scaled them
    assert results["radii"]["images"] == "validation"
    assert results["probes"]["online_linear"]["top1"] is not None


def test_a_checkpoint_of_another_run_or_other_images_is_refused(pretrained: Path, tmp_path: Path) -> None:
    runs = pretrained.parents[2]
    shutil.copytree(runs / "trained_models", tmp_path / "0" / "trained_models", symlinks=True)
    for name in ("trained_models", "lightning_logs"):  # by the second, solo-learn counts its folders
        shutil.copytree(runs / name, tmp_path / name, symlinks=True)
        for number in range(1, 6):
            (tmp_path / str(number)).mkdir(exist_ok=True)
            (tmp_path / str(number) / name).symlink_to(tmp_path / name)
    folder, marked = run_folder(tmp_path), run_folder(tmp_path / "0")
    before = (folder / "results.json").read_bytes()
    (checkpoint,) = folder.glob("*.ckpt")
    (marked / "last.ckpt").write_text(f"{checkpoint.name}\n")  # as on a file system without links
    val, larger = runs.parent / "val", write_images(tmp_path / "larger", size=64)
    # What follows "alone", with what is changed.
    given = json.loads((runs.parent / "rows.json").read_text())[0]
    marked_last, whole = (f"resume_from_checkpoint='{path}'" for path in (marked / "last.ckpt", checkpoint))
    changes = [
        *([marked_last], ["optimizer.lr=0.001", whole], ["max_epochs=3", whole]),
        *([f"data.val_path={val}"], [f"data.train_path={larger}"]),  # the same name, which auto-resume finds
        ["method_kwargs.radial_ce_loss_weight=10"],  # what differs in a weight begins anew
    ]
    taken, rate, epochs, validated, trained, anew = type_rows([[*given, *change] for change in changes], tmp_path)
    assert taken.returncode == 0, taken.stderr[-2000:]
    assert f"resume_from_checkpoint={checkpoint} is of another run: optimizer.lr is 0.3 there" in rate.stderr
    assert "max_epochs is 2 there and 3 here" in epochs.stderr
    found = f"{checkpoint.name}, which was "  # auto-resume looks below the working directory
    assert f"{found}validated on other images (none and 2:" in validated.stderr
    assert f"{found}trained on other images (2:" in trained.stderr
    assert all(done.returncode != 0 for done in (rate, epochs, validated, trained))
    assert (folder / "results.json").read_bytes() == before
    assert anew.returncode == 0, anew.stderr[-2000:]
    assert "Resuming from previous checkpoint" not in anew.stdout


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


#: Runs ``radial-vicreg`` and prints what ``strict=False`` of main_linear.py would hide.
PRINTS_WHAT_WAS_LOADED = """
import sys, torch
from radial_vicreg import cli
load = torch.nn.Module.load_state_dict
def loaded(*arguments, **keywords):
    result = load(*arguments, **keywords)
    print("loaded:", result, flush=True)
    return result
torch.nn.Module.load_state_dict = loaded
sys.exit(cli.main(sys.argv[1:]))
"""


def test_micro_batches_work_and_main_linear_probes_the_trained_weights(
    tiny_overrides: list[str], run_python: Run, tmp_path: Path, image_folder: Callable[..., Path]
) -> None:
    given = without(with_resnet(tiny_overrides), "runs_dir")
    script = [str(find_checkout() / "main_pretrain.py"), "--config-name", "radialvicreg", *given]
    more = ["data.val_path=null", "max_epochs=1", "auto_resume.enabled=false"]
    done = run_python(*script, *more, "optimizer.micro_batch_size=3")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("BatchNorm layers of resnet18 have the statistics of at most 3 images, not of 8") == 1
    (checkpoint,) = run_folder(tmp_path).glob("*.ckpt")
    weights = torch.load(checkpoint, weights_only=False)["state_dict"]
    assert int(weights["backbone.bn1.num_batches_tracked"]) == 3 * 2 * 3  # steps, views, micro-batches

    train, val = image_folder("train5", classes=5), image_folder("val5", classes=5)
    write_linear_configuration(tmp_path / "linear.yaml", checkpoint, train, val)
    linear = ["--config-path", str(tmp_path), "--config-name", "linear"]
    done = run_python("-c", PRINTS_WHAT_WAS_LOADED, "solo", "main_linear.py", *linear)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "loaded: <All keys matched successfully>" in done.stdout
    assert "`Trainer.fit` stopped: `max_epochs=1` reached" in done.stdout + done.stderr

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
