"""Radial-VICReg as a solo-learn method, next to solo-learn's own VICReg."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig

pytestmark = pytest.mark.solo
pytest.importorskip("solo.methods", reason="solo-learn is not installed")

from solo.methods import METHODS  # noqa: E402
from solo.utils.auto_resumer import AutoResumer  # noqa: E402

from radial_vicreg.commands.compose import compose  # noqa: E402
from radial_vicreg.hosts.solo.data import configured_rates, solo_config  # noqa: E402
from radial_vicreg.hosts.train import normalise  # noqa: E402

MakeCfg = Callable[..., DictConfig]


def build(cfg: DictConfig, method: str = "radialvicreg", seed: int = 3) -> Any:
    torch.manual_seed(seed)
    completed = solo_config(cfg)
    completed.method = method
    own_loop = {"own_loop": True} if method == "radialvicreg" else {}
    return METHODS[method](completed, **own_loop)


def silence(model: Any) -> Any:
    """Lets ``training_step`` run without a trainer."""
    model.log = lambda *args, **kwargs: None
    model.log_dict = lambda *args, **kwargs: None
    model._guard = type("NoGuard", (), {"watch": staticmethod(lambda *args: None)})()
    model._log_terms = lambda *args: None
    return model


def batch(count: int = 8, dtype: torch.dtype = torch.float32) -> list[Any]:
    generator = torch.Generator().manual_seed(5)
    views = [torch.randn(count, 3, 32, 32, generator=generator, dtype=dtype) for _ in range(2)]
    return [torch.arange(count), views, torch.arange(count) % 3]


def test_importing_the_host_registers_the_method() -> None:
    assert METHODS["radialvicreg"].__name__ == "RadialVICReg"


@pytest.mark.parametrize(
    "off",
    [
        ["method_kwargs.radial_objective=none"],
        ["method_kwargs.radial_ce_loss_weight=0", "method_kwargs.radial_ent_loss_weight=0"],
    ],
    ids=["objective none", "weights 0"],
)
@pytest.mark.parametrize("dim", [4, 16], ids=["N > d", "N < d"])
def test_without_radial_weights_it_is_solo_learns_vicreg(tiny_cfg: MakeCfg, off: list[str], dim: int) -> None:
    cfg = tiny_cfg(*off, f"method_kwargs.proj_output_dim={dim}")
    # float64: with eight images, BatchNorm magnifies rounding until it hides what is compared.
    ours, theirs = (silence(build(cfg, method)).double() for method in ("radialvicreg", "vicreg"))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    losses = []
    for model in (ours, theirs):
        loss = model.training_step(batch(dtype=torch.float64), 0)
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine.grad, other.grad, rtol=1e-7, atol=1e-9), name


def test_parameter_groups_are_those_of_solo_learns_vicreg(tiny_cfg: MakeCfg) -> None:
    ours, theirs = build(tiny_cfg()), build(tiny_cfg(), "vicreg")
    described = [
        [{key: value for key, value in group.items() if key != "params"} for group in model.learnable_params]
        for model in (ours, theirs)
    ]
    assert described[0] == described[1]


def test_without_labels_the_total_stays_finite_and_every_parameter_gets_a_gradient(tiny_cfg: MakeCfg) -> None:
    model = silence(build(tiny_cfg("+data.no_labels=true")))
    images = batch()
    loss = model.training_step([images[0], images[1], torch.full((8,), -1)], 0)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(
    ("dataset", "stem", "kernel"),
    [("custom", "auto", 7), ("custom", "true", 3), ("cifar10", "auto", 3), ("cifar10", "false", 7)],
)
def test_the_small_stem_follows_the_data_set_or_the_setting(
    tiny_cfg: MakeCfg, dataset: str, stem: str, kernel: int
) -> None:
    cfg = tiny_cfg(f"data.dataset={dataset}", f"method_kwargs.small_image_stem={stem}")
    backbone = build(cfg).backbone
    assert backbone.conv1.kernel_size == (kernel, kernel)
    assert isinstance(backbone.maxpool, torch.nn.Identity) == (kernel == 3)
    assert backbone(torch.randn(2, 3, 32, 32)).shape == (2, 512)


def test_validation_images_of_another_size_are_warned_about_once(tiny_cfg: MakeCfg) -> None:
    model = build(tiny_cfg())
    large = [torch.randn(2, 3, 64, 64), torch.zeros(2, dtype=torch.long)]
    with pytest.warns(UserWarning, match="validation images have 64 pixels but the network trains on 32"):
        model.validation_step(large, 0)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.validation_step(large, 1)


def test_unknown_settings_are_refused_with_the_nearest_name(tiny_cfg: MakeCfg) -> None:
    with pytest.raises(ValueError, match=r"radial_ce_los_weight.*did you mean 'radial_ce_loss_weight'"):
        build(tiny_cfg("+method_kwargs.radial_ce_los_weight=1"))


def test_results_carry_the_rates_as_written(tiny_cfg: MakeCfg) -> None:
    cfg = tiny_cfg()
    completed = solo_config(cfg)
    assert completed.optimizer.lr == pytest.approx(cfg.optimizer.lr * 8 / 256)
    written = configured_rates(completed)
    assert written["optimizer"]["lr"] == cfg.optimizer.lr
    assert written["optimizer"]["classifier_lr"] == cfg.optimizer.classifier_lr
    assert written["name"] == cfg.name


def test_both_hosts_give_one_configuration_one_hash(tiny_cfg: MakeCfg) -> None:
    from omegaconf import OmegaConf

    from radial_vicreg.identity import config_hash

    cfg = normalise(tiny_cfg())
    standalone = config_hash(OmegaConf.to_container(cfg, resolve=True))
    assert config_hash(build(cfg).results_config()) == standalone


SWEPT = [
    "seed=6",
    "optimizer.lr=0.03",
    "optimizer.classifier_lr=0.01",
    "scheduler.warmup_epochs=2",
    "method_kwargs.proj_output_dim=32",
    "method_kwargs.proj_hidden_dim=32",
    "method_kwargs.sim_loss_weight=10",
    "method_kwargs.var_loss_weight=10",
    "method_kwargs.cov_loss_weight=2",
    "method_kwargs.radial_objective=wasserstein",
    "method_kwargs.radial_ce_loss_weight=10",
    "method_kwargs.radial_ent_loss_weight=0.1",
    "method_kwargs.radial_ce_normalize=false",
    "method_kwargs.radial_spacing=2",
    "method_kwargs.radial_w1_loss_weight=2",
    "method_kwargs.radial_w1_target=quantiles",
    "method_kwargs.radial_reverse_kl_loss_weight=2",
    "method_kwargs.e2mc_loss_weight=1",
    "method_kwargs.radial_center=true",
    "method_kwargs.small_image_stem=true",
]


@pytest.mark.parametrize("swept", SWEPT)
def test_a_run_never_resumes_from_one_that_differs_in_a_swept_value(
    tiny_overrides: list[str], tmp_path: Path, swept: str
) -> None:
    finished = solo_config(compose("radialvicreg", tiny_overrides))
    folder = tmp_path / "trained_models" / "radialvicreg" / "run"
    folder.mkdir(parents=True)
    (folder / "args.json").write_text(json.dumps(to_plain(finished)))
    (folder / "run-ep=1.ckpt").touch()
    resumer = AutoResumer(checkpoint_dir=folder.parent, max_hours=36)
    other = solo_config(compose("radialvicreg", [*tiny_overrides, swept]))
    assert resumer.find_checkpoint(finished)[0] == folder / "run-ep=1.ckpt"
    assert resumer.find_checkpoint(other) == (None, None)


def to_plain(cfg: DictConfig) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.to_container(cfg)  # unresolved, as solo-learn's Checkpointer writes it
