"""The method on a fork of solo-learn whose base class keeps settings of its own in ``method_kwargs``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hosts_fixtures import MakeCfg, MakeConfig
from omegaconf import DictConfig, OmegaConf

pytestmark = pytest.mark.solo
pytest.importorskip("solo.methods", reason="solo-learn is not installed")

from solo.args.pretrain import parse_cfg  # noqa: E402
from solo.methods import METHODS  # noqa: E402
from solo.methods.base import BaseMethod  # noqa: E402

from radial_vicreg.config import MethodConfig  # noqa: E402
from radial_vicreg.data.build import open_data  # noqa: E402
from radial_vicreg.report.setting import Setting  # noqa: E402
from radial_vicreg.runs.loaded import open_run  # noqa: E402
from radial_vicreg.runs.results import RunResults  # noqa: E402
from radial_vicreg.solo.host import build_solo  # noqa: E402

ADDED = {"add_projector_classifier": False, "logging_interval": 1}


@pytest.fixture(autouse=True)
def _fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the base class fill in keys of its own and read them when it is built."""
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


@pytest.fixture
def build(script_cfg: MakeCfg) -> Callable[..., Any]:
    """The method as the fork's own script builds it."""
    return lambda *overrides: METHODS["radialvicreg"](parse_cfg(script_cfg("data.val_path=null", *overrides)))


def test_keys_that_the_base_class_adds_pass_and_may_be_set(build: Callable[..., Any]) -> None:
    model = build("+method_kwargs.logging_interval=50")
    assert model.read == {**ADDED, "logging_interval": 50}
    assert set(model.cfg.method_kwargs) == {*MethodConfig.model_fields, *ADDED}
    saved = OmegaConf.create(OmegaConf.to_container(model.cfg, resolve=True))
    assert METHODS["radialvicreg"](saved).cfg == saved


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
def test_misspelt_keys_and_bad_values_are_still_refused(build: Callable[..., Any], override: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        build(override)


def test_results_and_checkpoints_with_such_keys_are_read(build: Callable[..., Any], tmp_path: Path) -> None:
    model = build()
    config = model.results_config()
    results = RunResults.model_validate({"schema_version": 2, "status": "finished", "config": config})
    setting = Setting.of(results)
    assert (setting.dim, setting.objective, setting.weight("beta1")) == (16, "kl", 100)
    (tmp_path / "args.json").write_text(json.dumps(config))
    torch.save({"state_dict": model.state_dict(), "epoch": 0, "global_step": 1}, tmp_path / "run-ep=0.ckpt")
    encoder = open_run(tmp_path).model
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in encoder.state_dict().items())
