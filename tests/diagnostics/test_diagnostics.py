"""Radius statistics and the measurement of a network."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from radial_vicreg.diagnostics import measure_radii, radius_statistics


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)], ids=["N > d", "N < d"])
def test_statistics_agree_with_a_direct_computation(shape: tuple[int, int]) -> None:
    z = torch.randn(shape, generator=torch.Generator().manual_seed(2)) @ torch.randn(shape[1], shape[1]) + 1.0
    array = z.double().numpy()
    covariance = np.cov(array, rowvar=False)
    off_diagonal = covariance[~np.eye(shape[1], dtype=bool)]
    singular = np.linalg.svd(array, compute_uv=False)
    share = singular / singular.sum()
    quantiles = stats.chi.ppf((np.arange(shape[0]) + 0.5) / shape[0], shape[1])
    found = radius_statistics(z)
    assert found["off_diagonal_covariance"] == pytest.approx(np.sqrt(np.mean(off_diagonal**2)), rel=1e-4)
    assert found["effective_rank"] == pytest.approx(np.exp(-np.sum(share * np.log(share))), rel=1e-4)
    assert found["embedding_mean_norm"] == pytest.approx(np.linalg.norm(array.mean(axis=0)), rel=1e-5)
    assert found["w1_chi"] == pytest.approx(np.abs(np.sort(np.linalg.norm(array, axis=1)) - quantiles).mean(), rel=1e-5)


class Embedder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.layer = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"z": self.layer(self.norm(x))}


def test_measuring_leaves_the_model_as_it_was() -> None:
    model = Embedder().train()
    model.layer.eval()
    before = copy.deepcopy(model.state_dict())
    for batch_statistics in (False, True):
        measure_radii(model, [torch.randn(8, 4) + 3], batch_statistics)
    assert model.norm.training
    assert not model.layer.training
    assert model.state_dict().keys() == before.keys()  # a running mean of None is no part of it
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_two_modes_use_running_and_batch_statistics() -> None:
    model = Embedder()
    images = torch.randn(16, 4) * 5 + 3
    evaluated = measure_radii(model, [images], batch_statistics=False)
    model.eval()
    with torch.no_grad():
        assert torch.allclose(evaluated.radii, model(images)["z"].norm(dim=1))
        standardised = (images - images.mean(dim=0)) / (images.var(dim=0, unbiased=False) + 1e-5).sqrt()
        expected = model.layer(standardised).norm(dim=1)
    batch = measure_radii(model, [images], batch_statistics=True)
    assert torch.allclose(batch.radii, expected, atol=1e-5)
    assert batch.dim == 3


def test_a_synchronised_batch_norm_takes_this_process_s_batch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes may have no batch; in training mode it waits for them, and on a CPU it would refuse."""
    images = torch.randn(16, 4) * 5 + 3
    model = Embedder()
    expected = measure_radii(model, [images], batch_statistics=True)
    model.norm = nn.SyncBatchNorm.convert_sync_batchnorm(model.norm)
    before = copy.deepcopy(model.state_dict())
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    assert torch.equal(measure_radii(model, [images], batch_statistics=True).radii, expected.radii)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_one_image_is_too_few_to_measure() -> None:
    with pytest.raises(ValueError, match="at least 2 images, got 1"):
        measure_radii(Embedder(), [torch.randn(1, 4)], batch_statistics=False)


def test_non_finite_embeddings_are_counted() -> None:
    z = torch.randn(6, 3)
    z[1, 2] = torch.nan
    with pytest.raises(ValueError, match="z: 1 of 18 values are not finite"):
        radius_statistics(z)
