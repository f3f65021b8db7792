"""Warnings before settings that diverge."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from radial_vicreg.commands.compose import compose
from radial_vicreg.hosts.method_kwargs import complete_method_kwargs
from radial_vicreg.hosts.stability import stability_warnings
from radial_vicreg.losses import chi_cross_entropy

CIFAR_STEPS = 195  # 50,000 images in batches of 256
CELLS = sorted((Path(str(resources.files("radial_vicreg"))) / "yaml").glob("[cir]*/**/*.yaml"))


def warned(*overrides: str, steps: int = CIFAR_STEPS) -> list[str]:
    return stability_warnings(compose("radialvicreg", ["data.train_path=.", *overrides]), steps)


def test_the_papers_setting_is_inside() -> None:
    assert warned() == []


def test_beta1_of_100_without_the_factor_is_told_with_the_remedy() -> None:
    (text,) = warned("method_kwargs.radial_ce_normalize=false")
    assert "past stability" in text
    assert "method_kwargs.radial_ce_normalize=true (the factor 1/512)" in text


def test_a_warm_up_of_39_steps_is_told() -> None:
    (text,) = warned("scheduler.warmup_epochs=1", steps=39)
    assert "a warm-up of 39 steps to a rate of 0.3 is short" in text


@pytest.mark.parametrize(
    "overrides",
    [
        ["method_kwargs.radial_objective=none"],
        ["method_kwargs.radial_objective=wasserstein"],
        ["method_kwargs.radial_ce_loss_weight=0"],
        ["shared/optimizer=adamw"],
        ["method_kwargs.radial_ce_loss_weight=1"],  # stable at d 2048 and 0.3, tried
    ],
    ids=" ".join,
)
def test_what_does_not_pull_or_is_scaled_by_its_optimizer_is_not_warned_about(overrides: list[str]) -> None:
    assert warned("method_kwargs.radial_ce_normalize=false", *overrides) == []


@pytest.mark.parametrize("cell", CELLS, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}/{path.stem}")
def test_no_configuration_of_the_paper_warns(cell: Path) -> None:
    root = Path(str(resources.files("radial_vicreg"))) / "yaml"
    cfg: DictConfig = compose(str(cell.relative_to(root).with_suffix("")), ["data.train_path=."])
    cfg.method_kwargs = complete_method_kwargs(cfg.method, dict(cfg.method_kwargs))
    images = {"cifar100": 50_000, "imagenet10": 12_894, "custom": 12_894, "celeba": 162_770}[cfg.data.dataset]
    processes = 2 if "imagenet10" in str(cell) else 1
    assert stability_warnings(cfg, images // (cfg.optimizer.batch_size * processes)) == []


@pytest.mark.parametrize(("share", "stays"), [(0.9, True), (1.1, False)])
def test_the_limit_is_that_of_gradient_descent_on_a_bias(share: float, stays: bool) -> None:
    dim, weight, momentum = 64, 5.0, 0.9
    bias = torch.full((dim,), ((dim - 1) / dim) ** 0.5 * 1.001, requires_grad=True)
    rate = share * 2 * (1 + momentum) / (4 * weight)
    optimizer = torch.optim.SGD([bias], lr=rate, momentum=momentum)
    for _ in range(200):
        optimizer.zero_grad()
        z = bias.expand(2, dim)
        (weight * 2 * chi_cross_entropy(z)).backward()  # of two views
        optimizer.step()
    distance = abs(float(bias.detach().norm()) - (dim - 1) ** 0.5)
    assert (distance < 1e-3) == stays
