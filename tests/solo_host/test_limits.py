"""What solo-learn's scripts cannot do is said in one line at start."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import pytest
from helpers import TINY_VIT, composed
from hosts_fixtures import MakeCfg, MakeConfig
from hydra.errors import CompactHydraException
from omegaconf import DictConfig
from torch.utils.data import DataLoader

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.errors import UserError
from radial_vicreg.runs.loaded import open_run


@pytest.fixture
def tiny_overrides(tiny_overrides: list[str]) -> list[str]:
    """With the configuration's own network: what solo-learn can do depends on it."""
    return [item for item in tiny_overrides if item not in TINY_VIT]


def under_script(cfg: DictConfig) -> Any:
    """The method as solo-learn's script builds it."""
    pytest.importorskip("solo.methods")
    from solo.args.pretrain import parse_cfg
    from solo.methods import METHODS

    return METHODS["radialvicreg"](parse_cfg(cfg))


def completed(cfg: DictConfig) -> DictConfig:
    """The configuration after all that is asked before solo-learn builds its parts."""
    pytest.importorskip("solo.methods")
    from solo.args.pretrain import parse_cfg
    from solo.methods import METHODS

    return METHODS["radialvicreg"].add_and_assert_specific_cfg(parse_cfg(cfg))


VIT = "radialvicreg/backbone=vit_tiny"
DALI = ["data.format=dali", "data.val_path=null"]


@pytest.fixture
def with_dali(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the method find DALI installed."""
    solo_args = pytest.importorskip("solo.args.pretrain")
    monkeypatch.setattr(solo_args, "_dali_available", True)
    stand_in = Mock(add_and_assert_specific_cfg=lambda cfg: cfg)
    monkeypatch.setattr(solo_args, "PretrainDALIDataModule", stand_in, raising=False)


@pytest.mark.solo
@pytest.mark.usefixtures("with_dali")
@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([VIT], "vit_tiny .* does not accept images of 224 pixels, .* validates image folders .*data.val_path=null"),
        (["optimizer.name=sgd"], "clip_lr.*radialvicreg/optimizer=sgd"),
        (["scheduler.name=null"], "unknown scheduler.name None: did you mean none"),
        (["scheduler.name=step"], "scheduler.lr_decay_steps is not set"),
        ([*DALI], "solo-learn gives Lightning no validation loader: add limit_val_batches=0"),
        (["+loss._target_=my.Loss"], "loss=.* is read by `radial-vicreg pretrain` only"),
        (["data.cache=ram"], r"data\.cache=ram is read by `radial-vicreg pretrain` only"),
        (["data.format=lmdb"], "unknown data.format 'lmdb': solo-learn has: dali, h5, image_folder"),
        (["devices='0,'"], "^devices must be .*got '0,'"),
        (["devices=[]"], r"^devices must be .*got \[\]"),
    ],
    ids=str,
)
def test_what_the_script_cannot_do_is_refused_in_one_line_before_solo_learn_fails(
    script_cfg: MakeCfg, overrides: list[str], said: str
) -> None:
    """What docs/solo_learn.md lists is typed in ``test_typed.py``; these are further ones."""
    with pytest.raises(CompactHydraException, match=said) as error:
        under_script(script_cfg(*overrides))
    assert isinstance(error.value, UserError)
    assert "\n" not in str(error.value)


@pytest.mark.solo
@pytest.mark.usefixtures("with_dali")
@pytest.mark.parametrize(
    "overrides",
    [
        [VIT, "data.val_path=null"],
        *([VIT, "limit_val_batches=0"], [VIT, "data.dataset=cifar100"]),
        [*DALI, "limit_val_batches=0"],
    ],
    ids=str,
)
def test_the_remedies_are_accepted(script_cfg: MakeCfg, overrides: list[str]) -> None:
    completed(script_cfg(*overrides))


@pytest.mark.solo
def test_images_without_labels_may_lie_in_a_folder_without_others(script_cfg: MakeCfg, tmp_path: Path) -> None:
    flat = tmp_path / "train" / "class_0"
    given = ["data.no_labels=true", f"data.train_path={flat}"]
    (flat / "again.png").symlink_to(tmp_path / "train" / "class_1" / "0.png")  # there are no labels to be wrong
    completed(script_cfg(*given))
    (flat / ".DS_Store").touch()
    with pytest.raises(UserError, match=r"but 1 are not images, such as \.DS_Store"):
        completed(script_cfg(*given))


@pytest.mark.solo
def test_radial_vicreg_pretrain_is_not_asked_what_the_script_cannot_do(
    tiny_config: MakeConfig, script_cfg: MakeCfg, tmp_path: Path
) -> None:
    pytest.importorskip("solo.methods")
    from radial_vicreg.data.build import open_data
    from radial_vicreg.solo.host import build_solo
    from radial_vicreg.train.run import prepare

    flat = tmp_path / "train" / "class_0"
    (flat / "no image.txt").touch()
    (flat / "folder").mkdir()
    of_its_own = ["data.on_bad_image=skip", "data.no_labels=true", f"data.train_path={flat}", "optimizer.batch_size=4"]
    of_its_own += ["precision=auto", "ckpt=auto", "devices=2", "runs_dir=elsewhere", "loggers.csv=false", "host=solo"]
    config = prepare(tiny_config(*of_its_own))
    assert build_solo(config, open_data(config)).model.results_config() == config.plain()  # type: ignore[operator]
    with pytest.raises(UserError, match=r"reads every entry of data\.train_path"):  # the mark is gone
        under_script(script_cfg("data.no_labels=true", f"data.train_path={flat}"))


@pytest.mark.solo
def test_less_than_a_batch_of_images_does_not_end_as_if_trained(
    script_cfg: MakeCfg, quiet_trainer: Callable[..., pl.Trainer], fixed_loader: Callable[..., DataLoader[Any]]
) -> None:
    model = under_script(script_cfg("diagnostics.enabled=false"))
    loader = DataLoader(fixed_loader(batches=1, batch_size=7).dataset, batch_size=8, drop_last=True)
    with pytest.raises(UserError, match="has 7 images, too few for a batch of 8 on each of 1 process"):
        quiet_trainer(max_epochs=1).fit(model, loader)


@pytest.mark.solo
def test_main_knn_points_to_our_knn(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["solo", "main_knn.py"]) == 2
    assert "radial-vicreg probe RUN --probe knn" in capsys.readouterr().err


@pytest.mark.solo
@pytest.mark.parametrize(
    ("body", "status", "shown"),
    [
        ("def inner():\n    raise ValueError('theirs')\ninner()\n", 1, "line 2, in inner"),
        ("import sys\nsys.exit(7)\n", 7, ""),
        ("def (\n", 1, "SyntaxError"),
    ],
    ids=["error", "status", "syntax"],
)
def test_a_script_s_own_traceback_and_status_are_shown(
    body: str,
    status: int,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    script = tmp_path / "theirs.py"
    script.write_text(body)
    assert cli.main(["solo", str(script)]) == status
    said = capsys.readouterr().err
    assert shown in said
    assert "runpy" not in said or "SyntaxError" in said
    assert "radial-vicreg solo: error" not in said


@pytest.mark.solo
def test_devices_that_solo_learn_counts_as_lightning_does_are_taken(script_cfg: MakeCfg) -> None:
    cfg = script_cfg("devices=[2,5,7]", "num_nodes=2")
    as_written = cfg.optimizer.lr
    config = under_script(cfg).config
    assert (config.processes, config.optimizer.lr) == (6, as_written)


@pytest.mark.solo
def test_a_run_of_an_earlier_version_with_other_devices_can_still_be_loaded(script_cfg: MakeCfg) -> None:
    cfg = script_cfg("devices='2'")
    cfg.data.fingerprint = "0123abcd"  # as main_umap.py finds it in args.json
    assert under_script(cfg).config.processes == 2


@pytest.mark.solo
def test_processes_that_torchrun_started_are_compared_under_the_script_too(
    script_cfg: MakeCfg, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"torchrun started 2 processes, but devices=1 .* request 1: "):
        under_script(script_cfg("devices='1'"))


@pytest.mark.solo
def test_a_trainer_of_another_number_of_processes_is_refused_before_the_first_step(
    script_cfg: MakeCfg, quiet_trainer: Callable[..., pl.Trainer], fixed_loader: Callable[..., DataLoader[Any]]
) -> None:
    model = under_script(script_cfg("devices=[0,1]", "strategy=single_device"))
    trainer = quiet_trainer(strategy="single_device")
    with pytest.raises(UserError, match=r"strategy=single_device trains with 1 process, but .* request 2"):
        trainer.fit(model, fixed_loader(batches=1))
    assert trainer.global_step == 0


@pytest.mark.solo
def test_links_that_solo_learn_s_reader_follows_are_refused(script_cfg: MakeCfg, tmp_path: Path) -> None:
    (tmp_path / "train" / "class_1" / "more").symlink_to(tmp_path / "train" / "class_0")
    with pytest.raises(UserError, match="class_1/more is a link to images of another class"):
        under_script(script_cfg())


@pytest.mark.solo
@pytest.mark.parametrize(("stem", "warned"), [("true", True), ("auto", False)])
def test_a_stem_that_main_linear_cannot_load_is_warned_of(
    script_cfg: MakeCfg, stem: str, warned: bool, recwarn: pytest.WarningsRecorder
) -> None:
    under_script(script_cfg(f"method_kwargs.small_image_stem={stem}"))
    assert any("main_linear.py cannot load this network" in str(entry.message) for entry in recwarn) == warned


def test_another_method_s_checkpoint_is_named(tmp_path: Path, script_cfg: MakeCfg) -> None:
    config = run_config(script_cfg(), "script").plain()
    (tmp_path / "args.json").write_text(json.dumps({**config, "method": "simclr"}))
    (tmp_path / "a.ckpt").write_bytes(b"not read")
    with pytest.raises(ValueError, match=r"is a run of simclr: only runs of radial-vicreg"):
        open_run(tmp_path)


def test_every_sweep_names_the_project_that_its_runs_log_to() -> None:
    import yaml

    folder = Path(__file__).parents[2] / "yaml" / "radialvicreg" / "sweeps"
    projects = {path.name: yaml.safe_load(path.read_text()).get("project") for path in folder.rglob("*.yaml")}
    assert set(projects.values()) == {composed("radialvicreg").wandb.project}, projects
