"""Radial-VICReg as a solo-learn method, next to solo-learn's own VICReg."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import RESNET
from hosts_fixtures import MakeCfg, MakeConfig
from omegaconf import DictConfig, OmegaConf

pytestmark = pytest.mark.solo
pytest.importorskip("solo.methods", reason="solo-learn is not installed")

from solo.args.pretrain import parse_cfg  # noqa: E402
from solo.methods import METHODS  # noqa: E402
from solo.methods.base import BaseMethod  # noqa: E402
from solo.utils.auto_resumer import AutoResumer  # noqa: E402

from radial_vicreg.config import MethodConfig, RunConfig  # noqa: E402
from radial_vicreg.config.reading import read_config  # noqa: E402
from radial_vicreg.data.build import open_data  # noqa: E402
from radial_vicreg.errors import UserError  # noqa: E402
from radial_vicreg.report.setting import Setting  # noqa: E402
from radial_vicreg.runs.loaded import open_run  # noqa: E402
from radial_vicreg.runs.results import RunResults  # noqa: E402
from radial_vicreg.solo.data import solo_config  # noqa: E402
from radial_vicreg.solo.host import build_solo  # noqa: E402
from radial_vicreg.train.run import prepare  # noqa: E402


def build(config: RunConfig, method: str = "radialvicreg", seed: int = 3) -> Any:
    """The method under ``radial-vicreg pretrain``, or solo-learn's own of that name."""
    torch.manual_seed(seed)
    completed = solo_config(config, open_data(config))
    completed.method = method
    own = {"own": config} if method == "radialvicreg" else {}
    return METHODS[method](completed, **own)


def build_under_script(cfg: DictConfig) -> Any:
    """The method as main_pretrain.py builds it."""
    return METHODS["radialvicreg"](parse_cfg(cfg))


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


def test_importing_the_former_place_of_the_host_registers_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(METHODS, "radialvicreg", raising=False)
    monkeypatch.delitem(sys.modules, "radial_vicreg.hosts.solo", raising=False)
    with pytest.warns(DeprecationWarning, match=r"radial_vicreg\.solo\.register"):
        importlib.import_module("radial_vicreg.hosts.solo")
    assert METHODS["radialvicreg"].__name__ == "RadialVICReg"


@pytest.mark.parametrize(
    ("dim", "off"),
    [
        (4, ["method_kwargs.radial_objective=none"]),
        (16, ["method_kwargs.radial_ce_loss_weight=0", "method_kwargs.radial_ent_loss_weight=0"]),
    ],
    ids=["N > d, objective none", "N < d, weights 0"],
)
def test_without_radial_weights_it_is_solo_learns_vicreg(tiny_config: MakeConfig, off: list[str], dim: int) -> None:
    config = tiny_config(*off, f"method_kwargs.proj_output_dim={dim}")
    # float64: with eight images, BatchNorm magnifies rounding until it hides what is compared.
    ours, theirs = (silence(build(config, method)).double() for method in ("radialvicreg", "vicreg"))
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    losses = []
    for model in (ours, theirs):
        loss = model.training_step(batch(dtype=torch.float64), 0)
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine.grad, other.grad, rtol=1e-7, atol=1e-9), name
    described = [
        [{key: value for key, value in group.items() if key != "params"} for group in model.learnable_params]
        for model in (ours, theirs)
    ]
    assert described[0] == described[1]


def test_without_labels_the_total_stays_finite_and_every_parameter_gets_a_gradient(tiny_config: MakeConfig) -> None:
    model = silence(build(tiny_config("data.no_labels=true")))
    images = batch()
    loss = model.training_step([images[0], images[1], torch.full((8,), -1)], 0)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize(("dataset", "stem", "kernel"), [("cifar10", "auto", 3), ("cifar10", "false", 7)])
def test_the_small_stem_follows_the_data_set_or_the_setting(
    tiny_config: MakeConfig, dataset: str, stem: str, kernel: int
) -> None:
    config = tiny_config(*RESNET, f"data.dataset={dataset}", f"method_kwargs.small_image_stem={stem}")
    backbone = build(config).backbone
    assert backbone.conv1.kernel_size == (kernel, kernel)
    assert isinstance(backbone.maxpool, torch.nn.Identity) == (kernel == 3)
    assert backbone(torch.randn(2, 3, 32, 32)).shape == (2, 512)


def test_everything_that_solo_learn_fills_in_is_a_key_of_ours(script_cfg: MakeCfg) -> None:
    """``pretrain`` refuses unknown keys of a section, but must read what such a run has left."""
    filled = plain(prepared(script_cfg()))
    assert filled["data"]["num_large_crops"] == 2
    read_config(filled, "pretrain")


@pytest.mark.parametrize(
    "overrides",
    [
        ["data.val_path=null"],
        ["devices=auto", "num_nodes=null"],
        ["devices=2", "num_nodes=3"],
        ["devices='0,1'", "optimizer.batch_size=16"],
    ],
    ids=str,
)
def test_solo_learn_scales_the_rates_as_the_standalone_host_does(tiny_config: MakeConfig, overrides: list[str]) -> None:
    config = tiny_config(*overrides)
    cfg = solo_config(config, open_data(config))
    assert (cfg.optimizer.lr, cfg.optimizer.classifier_lr) == pytest.approx(config.rates)
    assert cfg.devices == config.plain()["devices"]


@pytest.mark.parametrize("dataset", ["celeba", "imagenet100"])
def test_a_data_set_that_solo_learn_does_not_know_is_a_folder_to_it(tiny_config: MakeConfig, dataset: str) -> None:
    config = tiny_config("data.dataset=custom")
    named = config.model_copy(update={"data": config.data.model_copy(update={"dataset": dataset})})
    cfg = solo_config(named, open_data(config))
    assert (cfg.data.dataset, cfg.data.num_classes) == (dataset, 3)


def test_an_assertion_of_solo_learns_without_a_text_is_shown_itself(
    tiny_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "theirs.py").write_text("def parse_cfg(cfg):\n    assert cfg is None\n")  # pytest words its own
    monkeypatch.setattr("radial_vicreg.solo.data.parse_cfg", runpy.run_path(str(tmp_path / "theirs.py"))["parse_cfg"])
    config = tiny_config()
    shown = "solo-learn rejects this configuration: assert cfg is None; host=standalone does not use solo-learn"
    with pytest.raises(UserError, match=re.escape(shown)):
        solo_config(config, open_data(config))


def prepared(cfg: DictConfig) -> DictConfig:
    """The configuration as main_pretrain.py hands it to auto-resume, checkpoints and W&B."""
    return METHODS["radialvicreg"].add_and_assert_specific_cfg(parse_cfg(cfg))


@pytest.fixture
def finished(script_cfg: MakeCfg, tmp_path: Path) -> Callable[[DictConfig], Path | None]:
    """A finished run; returns which checkpoint auto-resume finds for a configuration."""
    folder = tmp_path / "trained_models" / "radialvicreg" / "run"
    folder.mkdir(parents=True)
    (folder / "args.json").write_text(json.dumps(plain(prepared(script_cfg()))))
    (folder / "run-ep=1.ckpt").touch()
    resumer = AutoResumer(checkpoint_dir=folder.parent, max_hours=36)
    return lambda cfg: resumer.find_checkpoint(cfg)[0]


def test_a_run_resumes_with_its_own_images_and_values_however_they_are_written_and_with_no_others(
    script_cfg: MakeCfg,
    finished: Callable[[DictConfig], Path | None],
    image_folder: Callable[..., Path],
    tmp_path: Path,
) -> None:
    moved = shutil.copytree(tmp_path / "train", tmp_path / "scratch" / "job-17")
    for again in (["method_kwargs.radial_ce_loss_weight=100", "optimizer.lr=3e-1"], [f"data.train_path={moved}"]):
        assert finished(prepared(script_cfg(*again))) is not None
    other = image_folder("other", per_class=9)
    for swept in ("seed=6", "method_kwargs.radial_spacing=2", f"data.train_path={other}"):
        assert finished(prepared(script_cfg(swept))) is None, swept


def test_what_solo_learn_copies_holds_values_and_no_interpolations(
    script_cfg: MakeCfg, tiny_config: MakeConfig
) -> None:
    given = parse_cfg(script_cfg("data.val_path=null"))
    model = METHODS["radialvicreg"](given)
    copied = plain(given)
    assert "${" not in json.dumps(copied)
    assert model.cfg is given  # solo-learn reads its own object again
    assert copied["augmentations"][0]["crop_size"] == 32
    assert "-ce100-ent0-lr0.3-seed5-" in copied["name"]  # the rate as written
    assert copied["optimizer"]["lr"] == pytest.approx(0.3 * 8 / 256)  # and the scaled one where solo-learn wants it
    assert copied["name"] == model.results_config()["name"] == model.config.name
    assert copied["name"] == prepare(tiny_config("data.val_path=null")).name  # of radial-vicreg pretrain
    assert len(copied["name"]) <= 120


def test_a_secret_of_the_environment_is_not_resolved(script_cfg: MakeCfg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0123456789abcdef")
    cfg = script_cfg()
    cfg.note = "${oc.env:WANDB_API_KEY}"
    assert plain(prepared(cfg))["note"] == "${oc.env:WANDB_API_KEY}"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+method_kwargs.zzz=1", "method_kwargs.zzz is not a setting; known keys: "),
        ("+probs.encoder_knn=true", "probs is not a setting; did you mean probes"),
        ("+data.on_bad_images=skip", "data.on_bad_images is not a setting; did you mean data.on_bad_image"),
        ("probes=3", "probes must be a section with keys, got 3"),
        ("method_kwargs.radial_ce_loss_weight=-1", "radial_ce_loss_weight must be a finite number, 0 or more, got -1"),
    ],
)
def test_solo_learns_script_refuses_misspelt_keys_and_bad_values_of_ours(
    script_cfg: MakeCfg, override: str, said: str
) -> None:
    with pytest.raises(UserError, match=re.escape(said)):
        build_under_script(script_cfg(override))


def test_solo_learns_script_takes_keys_that_are_somebody_elses(script_cfg: MakeCfg) -> None:
    build_under_script(script_cfg("+my_study.probes=1", "+data.fold=3", "+tags=[a,b]", "+optimizer.layer_decay=0.5"))


def plain(cfg: DictConfig) -> Any:
    return OmegaConf.to_container(cfg)  # unresolved, as solo-learn's Checkpointer writes it


ADDED = {"add_projector_classifier": False, "logging_interval": 1}


@pytest.fixture
def fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of solo-learn whose base class fills in keys of its own and reads them when it is built."""
    stock_cfg, stock_init = BaseMethod.add_and_assert_specific_cfg, BaseMethod.__init__

    def with_keys(cfg: DictConfig) -> DictConfig:
        cfg = stock_cfg(cfg)
        cfg.method_kwargs = OmegaConf.select(cfg, "method_kwargs", default={})
        for key, value in ADDED.items():
            cfg.method_kwargs[key] = OmegaConf.select(cfg, f"method_kwargs.{key}", default=value)
        return cfg

    def reads(self: Any, cfg: DictConfig) -> None:
        stock_init(self, cfg)
        self.read = {key: self.cfg.method_kwargs[key] for key in ADDED}

    monkeypatch.setattr(BaseMethod, "add_and_assert_specific_cfg", staticmethod(with_keys))
    monkeypatch.setattr(BaseMethod, "__init__", reads)


@pytest.mark.usefixtures("fork")
def test_keys_that_the_base_class_adds_pass_and_may_be_set(script_cfg: MakeCfg) -> None:
    model = build_under_script(script_cfg("+method_kwargs.logging_interval=50"))
    assert model.read == {**ADDED, "logging_interval": 50}
    assert set(model.cfg.method_kwargs) == {*MethodConfig.model_fields, *ADDED}
    saved = OmegaConf.create(OmegaConf.to_container(model.cfg, resolve=True))
    assert METHODS["radialvicreg"](saved).cfg == saved


@pytest.mark.usefixtures("fork")
def test_radial_vicreg_pretrain_trains_on_such_a_base_class(tiny_config: MakeConfig) -> None:
    config = tiny_config()
    model: Any = build_solo(config, open_data(config)).model
    assert model.read == ADDED
    assert model.results_config() == config.plain()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("+method_kwargs.radial_ce_loss_wieght=1", "did you mean method_kwargs.radial_ce_loss_weight"),
        ("+method_kwargs.add_projector_clasifier=1", "did you mean method_kwargs.add_projector_classifier"),
        ("method_kwargs.radial_ce_loss_weight=-1", "radial_ce_loss_weight.*-1"),
    ],
)
@pytest.mark.usefixtures("fork")
def test_misspelt_keys_and_bad_values_are_still_refused(script_cfg: MakeCfg, override: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build_under_script(script_cfg(override))


@pytest.mark.usefixtures("fork")
def test_results_and_checkpoints_with_such_keys_are_read(script_cfg: MakeCfg, tmp_path: Path) -> None:
    model = build_under_script(script_cfg("data.val_path=null"))
    config = model.results_config()
    results = RunResults.model_validate({"schema_version": 2, "status": "finished", "config": config})
    setting = Setting.of(results)
    assert (setting.dim, setting.objective, setting.weight("beta1")) == (16, "kl", 100)
    (tmp_path / "args.json").write_text(json.dumps(config))
    torch.save({"state_dict": model.state_dict(), "epoch": 0, "global_step": 1}, tmp_path / "run-ep=0.ckpt")
    encoder = open_run(tmp_path).model
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in encoder.state_dict().items())
