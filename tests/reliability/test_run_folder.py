"""A run writes into a folder that is proved to be its own, and resumes from the furthest checkpoint."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import Pretrain, composed
from omegaconf import DictConfig, OmegaConf

from radial_vicreg.compose import run_config
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import write_json
from radial_vicreg.runs.checkpoints import epoch_checkpoints, find_checkpoint
from radial_vicreg.train.run_folder import choose_run_folder

QUICK = ["diagnostics.enabled=false", "probes.encoder_knn=false"]


def save(path: Path, epochs: int, cfg: DictConfig | None = None) -> Path:
    """A checkpoint; with a configuration it says itself of which run it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    state = {} if cfg is None else {"config": OmegaConf.to_container(cfg, resolve=True), "processes": 1}
    content = {"state_dict": {}, "epoch": epochs - 1, "global_step": 3 * epochs, "callbacks": {"ResultsWriter": state}}
    torch.save(content, path)
    return path


@pytest.fixture
def cfg(tmp_path: Path) -> DictConfig:
    cfg = composed("radialvicreg")
    cfg.runs_dir = str(tmp_path / "runs")
    return cfg


def with_ckpt(cfg: DictConfig, ckpt: Any) -> DictConfig:
    return OmegaConf.merge(cfg, {"ckpt": str(ckpt)})  # type: ignore[return-value]


def choose(cfg: DictConfig) -> tuple[Path, str | None]:
    return choose_run_folder(run_config(cfg))


def leave_run(folder: Path, cfg: DictConfig, *epochs: int, **more: Any) -> Path:
    """What a run of a configuration has left: results and some checkpoints."""
    config = OmegaConf.to_container(cfg, resolve=True)
    content = {"schema_version": 2, "status": "running", "config": config, "processes": 1, **more}
    write_json(folder / "results.json", content)
    for number in epochs:
        save(folder / "checkpoints" / f"epoch-{number}.ckpt", number)
    return folder


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class TestAGivenCheckpoint:
    def test_in_its_own_run_folder_goes_on_in_place(
        self, cfg: DictConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = leave_run(tmp_path / "somewhere", cfg, 4)
        (run / "checkpoints" / "last.ckpt").symlink_to("epoch-4.ckpt")
        folder, checkpoint = choose(with_ckpt(cfg, run / "checkpoints" / "epoch-4.ckpt"))
        assert (folder, checkpoint) == (run, str(run / "checkpoints" / "epoch-4.ckpt"))
        monkeypatch.chdir(run / "checkpoints")
        assert choose(with_ckpt(cfg, "last.ckpt"))[0] == run

    def test_anywhere_else_starts_a_new_folder_and_touches_nothing(
        self, cfg: DictConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        home = tmp_path / "home"
        mine = save(home / "checkpoints" / "epoch-4.ckpt", 4, cfg)
        (home / "results.json").write_text('{"mine": true}')
        (home / ".draft.tmp").touch()
        before = listing(home)
        folder, checkpoint = choose(with_ckpt(cfg, mine))
        assert folder.is_relative_to(tmp_path / "runs")
        assert checkpoint == str(mine)
        assert listing(home) == before
        assert "resumes in a new folder" in capsys.readouterr().out

    def test_of_another_configuration_is_refused_by_what_it_says_before_what_lies_beside_it(
        self, cfg: DictConfig, tmp_path: Path
    ) -> None:
        other: Any = OmegaConf.merge(cfg, {"method_kwargs": {"radial_ce_loss_weight": 1.0}})
        own = leave_run(tmp_path / "own", cfg)
        with pytest.raises(UserError, match="radial_ce_loss_weight is 1 there and 100 here"):
            choose(with_ckpt(cfg, save(own / "checkpoints" / "epoch-4.ckpt", 4, other)))
        assert not (tmp_path / "runs").exists()

    @pytest.mark.parametrize("state", [{"config": []}, {"config": {"data": 3}}, {"config": {}, "processes": "x"}])
    def test_whose_state_is_somebody_else_s_is_refused_in_one_line(
        self, state: Any, cfg: DictConfig, tmp_path: Path
    ) -> None:
        path = save(tmp_path / "models" / "epoch-4.ckpt", 4)
        torch.save({**torch.load(path, weights_only=True), "callbacks": {"ResultsWriter": state}}, path)
        with pytest.raises(UserError):
            choose(with_ckpt(cfg, path))


class TestTheNewestRun:
    @pytest.mark.parametrize("ckpt", ["auto", "last"])
    def test_its_furthest_epoch_counts_whatever_the_files_times_are(
        self, ckpt: str, cfg: DictConfig, tmp_path: Path
    ) -> None:
        run = leave_run(tmp_path / "runs" / "any name" / "run", cfg, 9, 10, 11)
        for number, modified in ((9, 3000), (10, 2000), (11, 1000)):  # a node an hour ahead
            os.utime(run / "checkpoints" / f"epoch-{number}.ckpt", (modified, modified))
        folder, checkpoint = choose(with_ckpt(cfg, ckpt))
        assert (folder, checkpoint) == (run, str(run / "checkpoints" / "epoch-11.ckpt"))

    def test_auto_starts_anew_where_no_run_has_a_checkpoint(self, cfg: DictConfig, tmp_path: Path) -> None:
        without = leave_run(tmp_path / "runs" / "a", cfg)
        folder, checkpoint = choose(with_ckpt(cfg, "auto"))
        assert checkpoint is None
        assert folder != without

    def test_files_that_only_look_like_checkpoints_of_an_epoch_are_left_alone(self, tmp_path: Path) -> None:
        for name in ("epoch-2.ckpt", "epoch-best.ckpt", "former-epoch-9.ckpt", "my-epoch-3.ckpt", "epoch-10.ckpt"):
            save(tmp_path / name, 1)
        assert [path.name for path in epoch_checkpoints(tmp_path)] == ["epoch-10.ckpt", "epoch-2.ckpt"]


def test_a_probe_takes_the_checkpoint_that_has_seen_most_whatever_the_files_times_are(tmp_path: Path) -> None:
    far, near = save(tmp_path / "run-ep=10.ckpt", 11), save(tmp_path / "run-ep=9.ckpt", 10)
    os.utime(far, (1, 1))
    assert find_checkpoint(tmp_path) == far
    near.unlink()
    near.symlink_to("gone.ckpt")
    assert find_checkpoint(tmp_path) == far


def test_a_copied_run_resumes_from_its_last_epoch_and_prunes_the_oldest(pretrain: Pretrain, tmp_path: Path) -> None:
    """``cp`` without times: every checkpoint of the copy is as old as the moment it was copied."""
    run = pretrain(*QUICK).run
    (run / "checkpoints" / "epoch-3.ckpt").unlink()
    checkpoints = tmp_path / "copy" / "x" / "run" / "checkpoints"
    shutil.copytree(run, checkpoints.parent, symlinks=True)
    shutil.rmtree(run)
    save(checkpoints / "epoch-1.ckpt", 1)  # newer than that of the second
    resumed = pretrain(*QUICK, f"runs_dir={tmp_path / 'copy'}", "ckpt=auto")
    assert [entry["epoch"] for entry in resumed.results["history"]] == [1, 2, 3]
    assert sorted(path.name for path in checkpoints.iterdir()) == ["epoch-2.ckpt", "epoch-3.ckpt", "last.ckpt"]
    assert (checkpoints / "last.ckpt").resolve().name == "epoch-3.ckpt"


def test_going_back_sets_the_later_epochs_aside_with_figures_of_their_network_and_removes_half_written_files(
    pretrain: Pretrain,
) -> None:
    settings = [*QUICK, "checkpoint.keep_prev=true", "max_epochs=2"]
    done = pretrain(*settings)
    run, checkpoints = done.run, done.run / "checkpoints"
    added = {f"offline_linear_encoder{which}": {"top1": 50.0} for which in ("", "_untrained")}
    write_json(run / "results.json", {**done.results, "probes": {**done.results["probes"], **added}})
    half_written = [run / ".results.json.1.tmp", checkpoints / ".epoch-2.ckpt.1-0123abcd.tmp"]
    of_others = [run / ".draft.tmp", checkpoints / "notes.tmp"]
    for file in (*half_written, *of_others):
        file.write_bytes(b"half")
    assert added.keys() <= pretrain(*settings, "ckpt=last").results["probes"].keys()  # nothing was left to do
    again = pretrain(*settings, f"ckpt='{checkpoints / 'epoch-1.ckpt'}'")
    told = "epoch-2.ckpt is of an earlier training of this run: renamed to former-epoch-2.ckpt"
    assert told in again.stdout
    names = {path.name for path in checkpoints.glob("*epoch*")}
    assert names == {"epoch-1.ckpt", "epoch-2.ckpt", "former-epoch-2.ckpt"}
    assert not any(file.exists() for file in half_written)
    assert all(file.exists() for file in of_others)
    assert "offline_linear_encoder_untrained" in again.results["probes"]
    assert "offline_linear_encoder" not in again.results["probes"]  # of the network of the former course
