"""Files of strangers: a bad one is one line and blocks no other, and nothing in it is carried out."""

from __future__ import annotations

import copy
import json
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import HOSTS, one_line, read_results
from markupsafe import escape

from radial_vicreg import cli
from radial_vicreg.compose import arguments_config
from radial_vicreg.config.stored import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.export import export_run, load_exported
from radial_vicreg.io.files import write_json
from radial_vicreg.probes.offline import probe_run
from radial_vicreg.runs.checkpoints import check_resumable, file_checksum, read_checkpoint
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runs.stored import open_stored_run, stored_runs
from radial_vicreg.runs.summaries import closing_lines

HUGE = 10**400
#: Values that no run writes, by their dotted keys, and what is said of the file.
STRANGE: dict[str, tuple[Any, str]] = {
    "seed": (HUGE, "seed cannot be 1000"),
    "schema_version": (HUGE, "schema_version cannot be 1000"),
    "seconds": (float("nan"), "seconds cannot be nan"),
    "config.max_epochs": (HUGE, "config.max_epochs cannot be 1000"),
    "config.optimizer.lr": (float("inf"), "config.optimizer.lr cannot be inf"),
    "config.probes.knn_neighbours": ([1, float("nan")], "config.probes.knn_neighbours.1 cannot be nan"),
    "config.data": (["x"], "its configuration is not of VICReg or Radial-VICReg"),
    "config.optimizer": (None, "VICReg: optimizer must be a section with keys, got None"),
    "config.tag": ("\x1b[2Ja\nb", r"VICReg: tag must be a text of one line, or null, got '\x1b[2Ja\nb'"),
    "config.precision": (["x"], "VICReg: precision must be one of "),
    "config.method_kwargs.radial_objective": ("$\\nosuch$", "VICReg: method_kwargs.radial_objective must be one of kl"),
    "config.loss": (5, "its configuration is not of VICReg or Radial-VICReg"),
    "probes.online_linear": ({"top1": float("nan")}, "probes.online_linear.top1 cannot be nan"),
    "history": ([{"epoch": HUGE}], "history.0.epoch cannot be 1000"),
    "radii": ([1], "radii cannot be [1]"),
    "probes": ({"online_linear": {"top1": "high"}}, "probes.online_linear.top1 cannot be 'high'"),
    "radii.final": (
        {"histogram": {"edges": [0.0, 1.0], "density": [1.0, 2.0]}},
        "radii.final.histogram cannot be {'density': [1.0, 2.0], 'edges': [0.0, 1.0]}",
    ),
}
#: Values that are odd, and that no reader may stumble over.
ODD: dict[str, Any] = {
    "config.method": "$\\nosuch$",
    "config.data.name": "$\\frac$ <script>alert(1)</script>",
    "method": "radialvicreg\x1b[2J",
    "host": "$\\nosuch$",
    "started": "0001-01-01T00:00:00+23:59",
    "versions": {"radial-vicreg": "none", "torch": None},
    "probes.online_linear": {"top1": 1e308},
}


def put(content: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(content)
    *path, last = key.split(".")
    node = changed
    for name in path:
        node = node.setdefault(name, {})
    node[last] = value
    return changed


@pytest.fixture
def runs(run_folder: Path) -> Path:
    """A folder with a good run and a file for each strange and odd value."""
    folder = run_folder.parent / "runs"
    folder.mkdir()
    run_folder.rename(folder / "good")
    content = read_results(folder / "good")
    values = {**{key: value for key, (value, _) in STRANGE.items()}, **{f"{key} ": value for key, value in ODD.items()}}
    for name, value in values.items():
        (folder / name).mkdir()
        (folder / name / "results.json").write_text(json.dumps(put(content, name.strip(), value)))
    (folder / "deep").mkdir()
    deep = '{"a":' * 900 + "1" + "}" * 900
    (folder / "deep" / "results.json").write_text(f'{{"schema_version": 2, "status": "finished", "config": {deep}}}')
    return folder


def test_a_list_of_runs_has_a_line_for_each_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", str(runs)]) == 0
    shown = capsys.readouterr()
    for key, (_, reason) in STRANGE.items():
        (line,) = (line for line in shown.err.splitlines() if f"{runs / key / 'results.json'}: " in line)
        assert line.startswith("not listed: ")
        assert reason in line
    assert f"{runs / 'good'} " in shown.out
    assert "\x1b" not in shown.out + shown.err
    assert "radialvicreg\\x1b[2J" in shown.out
    assert cli.main(["runs", str(runs), "--json"]) == 0
    assert {Path(run["run"]).name for run in json.loads(capsys.readouterr().out)}.isdisjoint(STRANGE)
    assert cli.main(["runs", str(runs), "--check"]) == 0
    names = {run.folder.name for run in stored_runs(runs)}  # what sweeps and resumed runs look through
    assert "good" in names
    assert names.isdisjoint(STRANGE)


def test_a_report_draws_the_others(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the deviation of 1e308 is no number
        assert cli.main(["report", str(runs), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "<script>alert" not in page
    assert " unrecognized" in capsys.readouterr().out
    for key, (_, reason) in STRANGE.items():
        assert re.search(rf"<tr><t[hd][^>]*>{re.escape(key)}/results.json</t[hd]><td>unrecognized</td>", page)
        assert escape(reason) in page


def test_results_are_never_interpolated(run_folder: Path) -> None:
    content = read_results(run_folder)
    bomb = {"x0": "a" * 10, **{f"x{level}": f"${{x{level - 1}}}" * 9 for level in range(1, 14)}}
    config = stored_config({**content["config"], **bomb, "tag": "${oc.env:HOME}"})
    assert config.tag == "${oc.env:HOME}"
    assert (config.model_extra or {})["x13"] == bomb["x13"]
    (run_folder / "results.json").write_text(json.dumps({**content, "config": {**content["config"], **bomb}}))
    assert open_run(run_folder).config.seed == content["config"]["seed"]


def test_references_of_args_json_that_blow_up_are_refused(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = read_results(run_folder)["config"]
    bomb = {"x0": "a", **{f"x{level}": [f"${{x{level - 1}}}"] * 9 for level in range(1, 14)}}
    (run_folder / "results.json").unlink()
    (run_folder / "args.json").write_text(json.dumps({**config, **bomb}))
    assert cli.main(["export", str(run_folder), "--format", "timm"]) == 2
    one_line(capsys.readouterr().err, "refers to more than 100,000 values by way of ${key}")


def test_args_json_is_resolved_without_the_environment(monkeypatch: pytest.MonkeyPatch, run_folder: Path) -> None:
    monkeypatch.setenv("MY_NAME", "resolved")
    config = read_results(run_folder)["config"]
    config["rate"] = config["optimizer"]["lr"]
    config["optimizer"]["lr"] = "${rate}"
    config["scheduler"]["warmup_epochs"] = "${..max_epochs}"
    for key in ("tag", "runs_dir"):
        config[key] = "${oc.env:MY_NAME}"
    config["wandb"] = {"entity": "a-${oc.env:MY_NAME}", "project": "${${wandb.entity}}"}
    config["list"] = ["${oc.env:MY_NAME}", {"x": "${oc.decode:1}"}]
    found = arguments_config(config)
    assert (found.optimizer.lr, found.scheduler.warmup_epochs) == (config["rate"], config["max_epochs"])
    assert "resolved" not in str(found)
    assert (found.tag, found.runs_dir, found.wandb.entity) == (None, "runs", None)
    with pytest.raises(UserError, match=r"optimizer\.lr is not set"):
        arguments_config({**config, "optimizer": {**config["optimizer"], "lr": "${oc.decode:0.3}"}})


# ---- checkpoints, cards and features ----


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it ran"


def test_a_hostile_or_damaged_checkpoint_is_one_line_and_does_not_run(
    run_folder: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = run_folder / "checkpoints" / "last.ckpt"
    whole, evil = checkpoint.read_bytes(), Evil(marker)
    beside = {**torch.load(checkpoint, weights_only=True), "x": evil}
    for write, reason in (
        (lambda: torch.save({"state_dict": evil}, checkpoint), ""),
        (lambda: torch.save(beside, checkpoint), ""),
        (lambda: torch.save({"x": evil}, checkpoint, _use_new_zipfile_serialization=False), ""),
        (lambda: checkpoint.write_bytes(pickle.dumps({"state_dict": evil})), ""),
        (lambda: checkpoint.write_bytes(b""), "it is empty, so writing it was interrupted"),
        (lambda: checkpoint.write_bytes(whole[: len(whole) // 2]), "its end is missing"),
        (lambda: checkpoint.write_bytes(b"text"), "it was not written by torch.save"),
    ):
        write()
        for command in (["probe"], ["export", "--format", "timm"]):
            assert cli.main([*command, str(run_folder)]) == 2
            said = f"radial-vicreg {command[0]}: error: {checkpoint} cannot be read as a checkpoint"
            one_line(error := capsys.readouterr().err, said, reason)
            assert not any(word in error for word in ("mmap", "weights_only", "Errno"))
        assert not marker.exists()
    torch.save(beside, checkpoint)
    torch.load(checkpoint, weights_only=False)  # it is hostile indeed
    assert marker.exists()


def test_a_checkpoint_in_the_old_format_of_torch_is_read(tmp_path: Path) -> None:
    torch.save({"state_dict": {"x": torch.ones(2)}}, tmp_path / "old.ckpt", _use_new_zipfile_serialization=False)
    assert read_checkpoint(tmp_path / "old.ckpt")["state_dict"]["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("host", HOSTS)
def test_a_hostile_checkpoint_is_not_resumed_from(
    host: str, tiny_overrides: list[str], marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = tmp_path / "evil.ckpt"
    torch.save({"state_dict": {}, "callbacks": Evil(marker)}, evil)
    status = cli.main(["pretrain", *tiny_overrides, f"host={host}", f"ckpt={evil}"])
    assert status == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert str(evil) in error
    assert "cannot be read" in error
    assert not marker.exists()
    assert not (tmp_path / "runs").exists()


def test_only_a_training_of_the_same_network_is_resumed(tmp_path: Path) -> None:
    model, file = torch.nn.Linear(3, 2), tmp_path / "x.ckpt"
    keys = ("epoch", "global_step", "loops", "optimizer_states", "lr_schedulers", "callbacks")
    whole = {**dict.fromkeys(keys, 0), "state_dict": model.state_dict()}
    torch.save(whole, file)
    check_resumable(file, model)
    for change, message in (
        ({"state_dict": {"weight": torch.zeros(2, 9), "bias": torch.zeros(2)}}, r"weight are \(2, 9\) and \(2, 3\)"),
        ({"state_dict": {"weight": torch.zeros(2, 3)}}, r"bias are none and \(2,\)"),
        ({"state_dict": {"weight": "text", "bias": torch.zeros(2)}}, "another network"),
        ({"state_dict": [1, 2]}, "it has no state_dict"),
        ({"state_dict": {1: torch.zeros(2)}}, "does not map names"),
    ):
        torch.save({**whole, **change}, file)
        with pytest.raises(ValueError, match=message):
            check_resumable(file, model)
    del whole["loops"]
    torch.save(whole, file)
    with pytest.raises(ValueError, match="it has no loops"):
        check_resumable(file, model)


def test_hostile_features_and_strange_cards_are_extracted_again(run_folder: Path, marker: Path) -> None:
    features = run_folder / "probes" / "features"
    first = probe_run(run_folder, probe="knn")[1]
    for content in (
        Evil(marker),
        [1, 2],
        {"features": torch.zeros(3, 4), "labels": torch.zeros(2)},
    ):
        for file in features.glob("*encoder*.pt"):
            torch.save(content, file)
            write_json(file.with_suffix(".json"), {"sha256": file_checksum(file)})  # whoever put it there can count
        again = probe_run(run_folder, probe="knn")[1]
        assert not again["features_cached"], content
        assert again["test"] == first["test"]
    assert not marker.exists()
    for file in features.glob("*.json"):
        file.write_text("[]")
    assert not probe_run(run_folder, probe="knn")[1]["features_cached"]


def test_a_card_from_elsewhere_names_no_other_file_and_no_other_network(run_folder: Path, marker: Path) -> None:
    card_file, card = export_run(run_folder, "timm")
    for change, message in (
        ({"weights": "../../x.pth"}, "weights must be one of backbone.pth, backbone.safetensors, model.safetensors ne"),
        ({"weights": 5}, "has no weights"),
        ({"weights": "backbone.safetensors"}, "does not exist"),
        ({"sha256": "0"}, "different SHA-256"),
        ({"library": "os"}, "is not a supported network"),
        ({"library": "torchvision", "architecture": "get_model_weights"}, "is not a supported network"),
        ({"architecture": "hf-hub:somebody/model"}, "is not a supported network"),
        ({"arguments": {"checkpoint_path": "x"}}, "would load weights from another source"),
        ({"arguments": {"weights": "DEFAULT"}}, "would load weights from another source"),
        ({"arguments": {"nonsense": 1}}, "does not take the card's arguments"),
        ({"arguments": []}, "has no arguments"),
        ({"architecture": "resnet18", "arguments": {}}, "does not fit the network"),
    ):
        write_json(card_file, {**card, **change})
        with pytest.raises(ValueError, match=message):
            load_exported(card_file)
    weights = card_file.parent / card["weights"]
    torch.save(Evil(marker), weights)
    write_json(card_file, {**card, "sha256": file_checksum(weights)})
    with pytest.raises(ValueError, match="cannot be read"):
        load_exported(card_file)
    assert not marker.exists()
    for text in ("{", "[]", "5", "[" * 100_000):
        card_file.write_text(text)
        with pytest.raises(ValueError, match=r"card\.json (is not JSON|has no library)"):
            load_exported(card_file)


def test_a_loss_that_a_run_names_is_never_imported(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is imported for whoever wrote the configuration of a training alone."""
    mark, loss = tmp_path / "mark", {"_target_": "leaves_a_mark.Loss"}
    (tmp_path / "leaves_a_mark.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Loss: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    results = read_results(run_folder)
    results["method"] = results["config"]["method"] = "mine"
    write_json(run_folder / "results.json", {**results, "config": {**results["config"], "loss": loss}})
    checkpoint = run_folder / "checkpoints" / "last.ckpt"
    torch.save({**torch.load(checkpoint, weights_only=True), "hyper_parameters": {"loss": loss}}, checkpoint)
    for command in (["probe"], ["export", "--format", "safetensors"], ["runs"]):
        assert cli.main([*command, str(run_folder)]) == 0
        assert not mark.exists()
    __import__("leaves_a_mark")
    assert mark.exists()


def test_results_without_probes_are_summarised_and_get_a_probe(run_folder: Path) -> None:
    file = run_folder / "results.json"
    write_json(file, {**read_results(run_folder), "probes": None, "steps": 1, "seconds": 1.0})
    assert closing_lines(open_stored_run(run_folder), {"linear": "linear probe"})[0].startswith("finished: 1 epoch, ")
    assert cli.main(["probe", str(run_folder), "--probe", "knn", "--add-to-results"]) == 0
    assert "offline_knn_encoder" in read_results(run_folder)["probes"]
