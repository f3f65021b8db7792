"""The code of a GPU with fake tensors: no two devices are mixed, and nothing waits but what may."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from configs import make_config
from fake_gpu import GPU, assert_on_gpu, fake_gpu
from PIL import Image
from torch import Tensor

from radial_vicreg.data.batch_augmentation import BatchAugmentation
from radial_vicreg.data.decoded import DecodedImages
from radial_vicreg.data.device_sets import DeviceTrainingSet, DeviceValidationSet
from radial_vicreg.diagnostics import gaussianity_statistics
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses._statistics import _Statistics
from radial_vicreg.optim import OPTIMIZERS, build_optimizer
from radial_vicreg.probes.heads import build_head
from radial_vicreg.probes.knn import knn_scores
from radial_vicreg.probes.metrics import BalancedAccuracy, ProbeMetrics
from radial_vicreg.probes.online import FeatureBank, HeadTrainer
from radial_vicreg.train import guard
from radial_vicreg.train.module import RadialVICRegModule

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]

#: Places that wait for a GPU, and why they may.
MAY_WAIT = {
    "_chi._new_quantiles": "once for a batch size: they are kept on the device",
    "_chi.chi_draws": "copies from the CPU without blocking; NumPy's numbers are double, so their type changes first",
    "decoded.move_to": "once: the pixels of the whole set",
    "device_sets._take": "once: the targets of the whole set, with the pixels",
    "batch_augmentation.Normalisation": "once: mean and deviation stay on the device",
    "radii.radius_statistics": "between epochs: its numbers are for a table",
}

OBJECTIVES: dict[str, dict[str, Any]] = {
    "kl": {"radial_ent_loss_weight": 0.5},
    "kl_centred": {"radial_ent_loss_weight": 0.5, "radial_center": True},
    "cross_entropy": {},
    "wasserstein_samples": {"radial_objective": "wasserstein"},
    "wasserstein_quantiles": {"radial_objective": "wasserstein", "radial_w1_target": "quantiles"},
    "reverse_kl": {"radial_objective": "reverse_kl"},
    "none": {"radial_objective": "none"},
    "e2mc": {"radial_objective": "none", "e2mc_loss_weight": 0.1},
}
SHAPES = [(12, 5), (6, 20)]  # the covariance form, and the Gram form


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_objective_stays_on_the_device_and_never_waits(objective: str, dtype: torch.dtype) -> None:
    with fake_gpu(MAY_WAIT):
        loss = RadialVICRegLoss(**OBJECTIVES[objective])
        for shape in SHAPES:
            for number in (2, 3):
                views = [torch.empty(shape, dtype=dtype, device=GPU, requires_grad=True) for _ in range(number)]
                total = loss(*views)
                assert total.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
                assert_on_gpu(total, loss.terms)


class Context(SimpleNamespace):
    """What autograd gives a function: autograd itself has no fake GPU."""

    def save_for_backward(self, *tensors: Tensor) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *_: Tensor) -> None:
        """Nothing to mark."""


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("number", [2, 3])
def test_the_analytic_backward_stays_on_the_device_and_never_waits(
    number: int, shape: tuple[int, int], center: bool
) -> None:
    with fake_gpu(), torch.no_grad():
        context, views = Context(), [torch.empty(shape, device=GPU) for _ in range(number)]
        outputs = _Statistics.forward(context, *views, False, center)
        gradients = _Statistics.backward(context, *(torch.empty_like(output) for output in outputs))
        assert gradients[number:] == (None, None)
        assert_on_gpu(outputs, gradients)
        assert [gradient.shape for gradient in gradients[:number] if gradient is not None] == [shape] * number
