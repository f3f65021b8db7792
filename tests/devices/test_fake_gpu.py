"""The code of a GPU with fake tensors: no two devices are mixed, and nothing waits but what may."""

from __future__ import annotations

import itertools
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from configs import make_config
from fake_gpu import GPU, assert_on_gpu, fake_gpu
from objectives import CASES
from packaging.version import parse as version
from PIL import Image
from torch import Tensor

from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.data.decoded import DecodedImages
from radial_vicreg.data.device_sets import DeviceTrainingSet, DeviceValidationSet
from radial_vicreg.diagnostics.embeddings import measure_embeddings
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses._statistics import _Statistics
from radial_vicreg.names.networks import OPTIMIZER_DEFAULTS
from radial_vicreg.nets.optimizers import build_optimizer
from radial_vicreg.probes.heads import layers
from radial_vicreg.probes.knn import knn_scores
from radial_vicreg.probes.metrics import BalancedAccuracy, ProbeMetrics
from radial_vicreg.probes.online import FeatureBank, HeadTrainer
from radial_vicreg.train.module import PretrainingModule

pytestmark = pytest.mark.skipif(
    version(torch.__version__) < version("2.14"),
    reason="fake CUDA tensors end the process in PyTorch 2.6; 2.14 has them",
)

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]

#: Places that wait for a GPU, and why they may.
MAY_WAIT = {
    "_chi._new_quantiles": "once for a batch size: the quantiles stay on the device",
    "decoded.move_to": "once: the pixels of the whole set",
    "device_sets._take": "once: the targets of the whole set",
    "batch_augmentation.__call__": "once: mean and deviation stay on the device",
    "radii.radius_statistics": "between epochs: its numbers are for a table",
    "gaussianity.gaussianity_statistics": "between epochs: its numbers are for a table",
    "metrics.to": "once in a validation: counters",
    "metrics.update": "in a validation: torchmetrics takes unlabelled images out by a mask",
    "embeddings.measure_embeddings": "between epochs: radii for the figure",
}


def test_the_stand_in_sees_each_kind_of_wait_and_two_devices() -> None:
    with fake_gpu({"test_fake_gpu": "no place of the package"}) as waiting:
        x = torch.empty(3, device=GPU)
        for wait in (x.sum().item, x.nonzero, x.cpu, lambda: torch.ones(3).to(GPU), lambda: x[x > 0]):
            with pytest.raises(AssertionError, match="waits for the GPU"):
                wait()
        torch.ones(3).to(GPU, non_blocking=True)
        assert torch.ones(()).item() == 1.0  # of the CPU
        with pytest.raises(RuntimeError, match="at least two devices"):
            x + torch.ones(3)
    assert waiting.waited == set()


SHAPES = [(12, 5), (6, 20)]  # the covariance form, and the Gram form


@pytest.mark.parametrize("objective", CASES)
def test_the_objective_stays_on_the_device_and_never_waits(objective: str) -> None:
    with fake_gpu(MAY_WAIT) as waiting:
        loss = RadialVICRegLoss(**CASES[objective])
        for dtype, (shape, number) in zip(DTYPES, itertools.product(SHAPES, (2, 3)), strict=True):
            views = [torch.empty(shape, dtype=dtype, device=GPU, requires_grad=True) for _ in range(number)]
            total = loss(*views)
            assert total.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
            assert_on_gpu(total, loss.terms)
    assert waiting.waited <= {"_chi._new_quantiles"}


class Context(SimpleNamespace):
    """What autograd gives a function: autograd itself has no fake GPU."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_: Tensor) -> None:
        """Nothing to mark."""


@pytest.mark.parametrize(("number", "shape", "center"), [(2, SHAPES[1], False), (3, SHAPES[0], True)], ids=str)
def test_the_analytic_backward_stays_on_the_device_and_never_waits(
    number: int, shape: tuple[int, int], center: bool
) -> None:
    with fake_gpu(), torch.no_grad():
        context, views = Context(), [torch.empty(shape, device=GPU) for _ in range(number)]
        outputs = _Statistics.forward(context, *views, False, center, True)
        gradients = _Statistics.backward(context, *(torch.empty_like(output) for output in outputs))
        assert gradients[number:] == (None, None, None)
        assert_on_gpu(outputs, gradients)
        assert [gradient.shape for gradient in gradients[:number] if gradient is not None] == [shape] * number


#: Images of one pixel: sizes are read from tensors, and fake ones hold 1 everywhere.
PICTURES: Any = [(Image.new("RGB", (1, 1)), label) for label in range(4)]


@pytest.mark.parametrize("cropped", [True, False])
def test_batches_are_augmented_on_the_device_without_waiting(cropped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**30))
    config = make_config(augmentations__0__rrc__enabled=cropped)
    train, val = (DecodedImages(PICTURES, 1, "data.format=device", same_size=True) for _ in range(2))
    augment = BatchAugmentation("custom", config.augmentations[0])
    with fake_gpu(MAY_WAIT) as waiting:
        training = DeviceTrainingSet(train, True, [augment], [2])
        validation = DeviceValidationSet(val, True, "custom", config.augmentations[0])
        for batch in (training.collate([0, 2]), validation.collate([1, 3])):
            assert_on_gpu(batch)
        assert waiting.waited == {"decoded.move_to", "device_sets._take", "batch_augmentation.__call__"}
        waiting.waited.clear()
        for batch in (training.collate([1, 3]), validation.collate([0, 2])):
            assert_on_gpu(batch)
        assert waiting.waited == set()  # from the second batch on


SMALL = {"name": "timm:test_resnet"}
#: What a training step may be asked for.
STEPS: dict[str, dict[str, Any]] = {
    "classes": {},
    "attributes": {"backbone": SMALL, "data__dataset": "celeba", "data__multi_label": True},
    "no_labels": {"backbone": SMALL, "data__no_labels": True},
    "small_crops": {
        "backbone": SMALL,
        "augmentations": [{"crop_size": 32, "num_crops": 2}, {"crop_size": 16, "num_crops": 1}],
    },
    "transformer": {"backbone": {"name": "vit_tiny", "kwargs": {"img_size": 32, "depth": 1, "drop_path_rate": 0.1}}},
    "custom_loss": {"backbone": SMALL, "method": "mse", "loss": {"_target_": "torch.nn.MSELoss"}},
}
OTHER_STEPS = {"attributes", "small_crops", "custom_loss"}  # slow


@pytest.mark.parametrize(
    ("what", "dtype"),
    [
        *(pytest.param(what, torch.float32, marks=pytest.mark.slow if what in OTHER_STEPS else ()) for what in STEPS),
        ("no_labels", torch.bfloat16),
    ],
    ids=str,
)
def test_a_training_step_stays_on_the_device_and_never_waits(
    what: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Mock)  # of the guard
    config = make_config(**STEPS[what])
    attributes = config.data.multi_label
    with fake_gpu(MAY_WAIT) as waiting:
        waiting.preparing = True
        with torch.device(GPU):
            module = PretrainingModule(config, num_classes=40 if attributes else 3).to(dtype)
        waiting.preparing = False
        logged: dict[str, Any] = {}
        monkeypatch.setattr(module, "_trainer", SimpleNamespace(precision="32-true", log_every_n_steps=1))
        monkeypatch.setattr(PretrainingModule, "global_step", 0)
        monkeypatch.setattr(module, "log", lambda name, value, **_: logged.__setitem__(name, value))
        sizes = [crop.crop_size for crop in config.augmentations for _ in range(crop.num_crops)]
        for _ in range(2):
            waiting.waited.clear()
            views = [torch.empty(4, 3, size, size, dtype=dtype, device=GPU) for size in sizes]
            labels = torch.empty((4, 40) if attributes else 4, dtype=torch.long, device=GPU)
            loss = module.training_step([torch.empty(4, dtype=torch.long, device=GPU), views, labels], 0)
            assert_on_gpu(loss, logged)
    assert "train_class_loss_step" in logged
    assert waiting.waited == set()  # in the second step


@pytest.mark.parametrize("name", sorted(OPTIMIZER_DEFAULTS))
def test_an_optimizer_steps_on_the_device_without_waiting(name: str) -> None:
    config = make_config(optimizer__name=name, optimizer__kwargs={})
    with fake_gpu() as waiting, torch.no_grad():
        weights = [torch.nn.Parameter(torch.empty(shape, device=GPU)) for shape in ((4, 3), (4,))]
        optimizer = build_optimizer(config, [{"name": "backbone", "params": weights}])
        for _ in range(2):  # the first one makes the state
            for weight in weights:
                weight.grad = torch.empty_like(weight)
            optimizer.step()
        assert_on_gpu(weights, [state.get("momentum_buffer", weights[0]) for state in optimizer.state.values()])
    assert waiting.waited == set()


@pytest.mark.parametrize("multi_label", [False, True])
def test_probes_and_metrics_stay_on_the_device_and_never_wait_in_an_epoch(multi_label: bool) -> None:
    with fake_gpu(MAY_WAIT) as waiting, torch.no_grad():
        features = torch.empty(6, 5, device=GPU)
        targets = torch.empty((6, 3) if multi_label else 6, dtype=torch.long, device=GPU)
        waiting.preparing = True
        heads = HeadTrainer({"mlp": partial(layers, 5, 8, 3)}, 10, 0.1, seed=0, device=GPU)
        balanced = BalancedAccuracy(3).to(GPU)
        waiting.preparing = False
        scores = dict(heads.scores({"mlp": features}))
        bank = FeatureBank(limit=4)
        bank.add(features, targets)
        gathered = bank.gathered(lambda x: x)
        assert gathered is not None
        votes = knn_scores(*gathered, features, (1, 2), 3, 0.1)
        metrics = ProbeMetrics(3, multi_label).to(GPU)
        metrics.update(scores["mlp"], targets)
        if multi_label:
            balanced.update(scores["mlp"], targets)
        assert_on_gpu(scores, votes, gathered)
    assert waiting.waited == {"metrics.to"} | (set() if multi_label else {"metrics.update"})


def test_statistics_of_embeddings_are_computed_where_they_are() -> None:
    with fake_gpu(MAY_WAIT) as waiting, torch.no_grad():
        measured = measure_embeddings(torch.empty(20, 4, device=GPU), gaussianity=True)
    assert measured.statistics.keys() >= {"w1_chi", "effective_rank", "epps_pulley"}
    assert "radii.radius_statistics" in waiting.waited
