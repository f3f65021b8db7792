"""Every callback under every precision that Lightning has."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import lightning.pytorch as pl
import pytest
import torch
from helpers import composed, read_results, with_resnet, without
from hosts_fixtures import quiet_trainer  # noqa: F401
from torch.utils.data import DataLoader, TensorDataset

from radial_vicreg.compose import run_config
from radial_vicreg.probes.linear import LinearProbe
from radial_vicreg.train.callbacks.frozen_probe import FrozenProbe
from radial_vicreg.train.module import PretrainingModule
from radial_vicreg.train.run import prepare


def has_half_on_cpu() -> bool:
    """Tell whether PyTorch has a cross-entropy of float16 on a CPU, which 2.3 lacks."""
    try:
        torch.nn.functional.cross_entropy(torch.zeros(1, 2, dtype=torch.float16), torch.tensor([0]))
    except RuntimeError:
        return False
    return True


needs_half = pytest.mark.skipif(not has_half_on_cpu(), reason=f"PyTorch {torch.__version__} has no float16 on a CPU")
PRECISIONS = [
    *("16-mixed", "bf16-true"),
    *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("64-true", "bf16-mixed")),
    pytest.param("16-true", marks=[needs_half, pytest.mark.slow]),
]
SMALLEST = [
    # No Adam: its eps of 1e-8 is 0 in float16.
    *("radialvicreg/optimizer=sgd", "optimizer.batch_size=8", "optimizer.lr=1e-3", "optimizer.classifier_lr=1e-3"),
    *("probes.encoder_knn=true", "probes.knn_neighbours=[3]"),
]


def views(size: int) -> DataLoader:
    """Batches ``[index, [view, view], target]``."""
    images = torch.randn(24, 3, size, size)
    rows = [(index, [image, image.flip(-1)], index % 3) for index, image in enumerate(images)]
    return DataLoader(rows, batch_size=8)  # type: ignore[arg-type]


def labelled(size: int) -> DataLoader:
    return DataLoader(TensorDataset(torch.randn(12, 3, size, size), torch.arange(12) % 3), batch_size=8)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_callback_measures_under_every_precision(
    precision: str,
    tiny_overrides: list[str],
    tmp_path: Path,
    quiet_trainer: Callable[..., pl.Trainer],  # noqa: F811
) -> None:
    config = prepare(run_config(composed("radialvicreg", *tiny_overrides, *SMALLEST)))
    module = PretrainingModule(config, num_classes=3)
    module.results_folder = str(tmp_path / "run")
    # Larger images for validation, as solo-learn has them: the callbacks resize, the transformer takes one size alone.
    module.validation_step = lambda batch, batch_idx: module(batch[0][..., :32, :32]) and None  # type: ignore
    frozen = FrozenProbe(LinearProbe, labelled(32).dataset, labelled(32))
    trainer = quiet_trainer(
        precision=precision, max_epochs=2, callbacks=[frozen], num_sanity_val_steps=0, log_every_n_steps=1
    )
    trainer.fit(module, views(32), labelled(48))
    results = read_results(tmp_path / "run")
    assert results["status"] == "finished"
    assert results["probes"].keys() >= {"online_projector_linear", "online_mlp", "online_knn3", "frozen_linear"}
    assert math.isfinite(results["radii"]["final"]["eval"]["w1_chi"])
    assert math.isfinite(results["radii"]["final"]["batch"]["w1_chi"])


@pytest.mark.slow
@pytest.mark.solo
def test_main_pretrain_trains_in_bfloat16_with_every_callback(
    tiny_overrides: list[str], run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    from radial_vicreg.solo.detect import find_solo_learn

    location = find_solo_learn().location
    assert location is not None
    overrides = without(with_resnet(tiny_overrides), "runs_dir", "precision")
    script = str(location.parent / "main_pretrain.py")
    done = run_python(script, "--config-name", "radialvicreg", *overrides, "max_epochs=1", "precision=bf16-true")
    assert done.returncode == 0, done.stderr[-2000:]
    (written,) = tmp_path.glob("trained_models/radialvicreg/*/results.json")
    results = read_results(written.parent)
    assert results["status"] == "finished"
    assert results["probes"].keys() >= {"online_projector_linear", "online_mlp", "online_linear"}
    assert math.isfinite(results["radii"]["final"]["eval"]["w1_chi"])
