"""Checkpoints, cards and results from strangers: nothing in them runs, and nothing leads out of its folder."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import HOSTS, one_line

from radial_vicreg import cli
from radial_vicreg.export import export_run, load_exported
from radial_vicreg.io.files import write_json
from radial_vicreg.probes.offline import probe_run
from radial_vicreg.runs.checkpoints import check_resumable, file_checksum, find_checkpoint, read_checkpoint
from radial_vicreg.runs.stored import open_stored_run
from radial_vicreg.runs.summaries import closing_lines

COMMANDS = {"probe": ["probe"], "export": ["export", "--format", "timm"]}


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "it ran"


def hostile_contents(marker: Path) -> dict[str, Callable[[Path], Any]]:
    evil = Evil(marker)
    return {
        "state_dict": lambda file: torch.save({"state_dict": evil}, file),
        "beside good weights": lambda file: torch.save({**torch.load(file, weights_only=True), "x": evil}, file),
        "plain pickle": lambda file: file.write_bytes(pickle.dumps({"state_dict": evil})),
        "old format": lambda file: torch.save({"x": evil}, file, _use_new_zipfile_serialization=False),
    }


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("probe", "state_dict"),
        ("export", "beside good weights"),
        ("probe", "plain pickle"),
        ("export", "old format"),
    ],
)
def test_a_hostile_checkpoint_is_one_line_and_does_not_run(
    command: str, how: str, run_folder: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder
    checkpoint = folder / "checkpoints" / "last.ckpt"
    hostile_contents(marker)[how](checkpoint)
    assert cli.main([*COMMANDS[command], str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"radial-vicreg {command}: error: {checkpoint} cannot be read as a checkpoint")
    assert error.count("\n") == 1
    assert not marker.exists()
    with contextlib.suppress(RuntimeError):  # the file is hostile indeed
        torch.load(checkpoint, weights_only=False)
    assert marker.exists()


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


def resumable(model: torch.nn.Module) -> dict[str, Any]:
    keys = ("epoch", "global_step", "loops", "optimizer_states", "lr_schedulers", "callbacks")
    return {**dict.fromkeys(keys, 0), "state_dict": model.state_dict()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"state_dict": {"weight": torch.zeros(2, 9), "bias": torch.zeros(2)}}, r"weight are \(2, 9\) and \(2, 3\)"),
        ({"state_dict": {"weight": torch.zeros(2, 3)}}, r"bias are none and \(2,\)"),
        ({"state_dict": {"weight": "text", "bias": torch.zeros(2)}}, "another network"),
        ({"state_dict": [1, 2]}, "it has no state_dict"),
        ({"state_dict": {1: torch.zeros(2)}}, "does not map names"),
        ({"loops": None}, "it has no loops"),
    ],
)
def test_only_a_training_of_the_same_network_is_resumed(change: dict, message: str | None, tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    content = {**resumable(model), **change}
    if change.get("loops", 0) is None:
        del content["loops"]
    torch.save(content, tmp_path / "x.ckpt")
    if message is None:
        check_resumable(tmp_path / "x.ckpt", model)
        return
    with pytest.raises(ValueError, match=message):
        check_resumable(tmp_path / "x.ckpt", model)


def set_config(folder: Path, key: str, value: Any) -> None:
    results = json.loads((folder / "results.json").read_text())
    node = results["config"]
    *sections, last = key.split(".")
    for section in sections:
        node = node[int(section)] if isinstance(node, list) else node.setdefault(section, {})
    node[last] = value
    write_json(folder / "results.json", results)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("backbone", 5, "in its configuration, backbone must be a section with keys, got 5"),
        ("backbone.name", "../../resnet18", "unknown backbone.name '../../resnet18'"),
        ("backbone.kwargs", {"checkpoint_path": "evil.pth"}, "backbone.kwargs.checkpoint_path would load weights"),
        ("backbone.kwargs", {"x=1); import os": 1}, "backbone.kwargs={'x=1); import os': 1} do not fit vit_tiny"),
        ("method_kwargs.proj_output_dim", "512", "proj_output_dim must be a whole number, 1 to 1,048,576, got '512'"),
        ("augmentations", [], "augmentations must be a list of one or more of sections, got []"),
        ("augmentations.0.crop_size", -1, "augmentations.0.crop_size must be a whole number, 1 to 4,096, got -1"),
        ("data.dataset", {"a": 1}, "data.dataset must be one of cifar10, cifar100, "),
    ],
)
def test_a_configuration_with_wrong_types_is_one_line_that_names_the_key(
    key: str, value: Any, said: str, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_config(run_folder, key, value)
    for command, line in COMMANDS.items():
        assert cli.main([*line, str(run_folder)]) == 2
        one_line(capsys.readouterr().err, f"radial-vicreg {command}: error: ", said)


def test_a_strange_results_file_is_one_line_with_its_place(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, said in (
        ("[]", "results.json: not a dictionary"),
        ('{"config": {"backbone": []}}', "results.json: no schema_version, so not written by radial-vicreg"),
        ("[" * 100_000, "results.json: cut short or not JSON"),
        ("\ufeff{}", "results.json: cut short or not JSON"),
        ("", "results.json: cut short or not JSON"),
    ):
        (run_folder / "results.json").write_text(text, encoding="utf-8")
        assert cli.main(["probe", str(run_folder)]) == 2
        one_line(capsys.readouterr().err, str(run_folder), said)


def test_hostile_features_and_strange_cards_are_extracted_again(run_folder: Path, marker: Path) -> None:
    features = run_folder / "probes" / "features"
    first = probe_run(run_folder, probe="knn")[1]
    for content in (
        Evil(marker),
        [1, 2],
        {"features": 1, "labels": 2},
        {"features": torch.zeros(3, 4), "labels": torch.zeros(2)},
    ):
        for file in features.glob("*encoder*.pt"):
            torch.save(content, file)
            write_json(file.with_suffix(".json"), {"sha256": file_checksum(file)})  # whoever put it there can count
        again = probe_run(run_folder, probe="knn")[1]
        assert not again["features_cached"], content
        assert again["test"] == first["test"]
    assert not marker.exists()
    for card in ("[]", "{", '{"sha256": 5}'):
        for file in features.glob("*.json"):
            file.write_text(card)
        assert not probe_run(run_folder, probe="knn")[1]["features_cached"], card


def test_a_card_from_elsewhere_names_no_other_file_and_no_other_network(run_folder: Path) -> None:
    card_file, card = export_run(run_folder, "timm")
    changes: list[tuple[dict[str, Any], str]] = [
        (
            {"weights": "../../x.pth"},
            "weights must be one of backbone.pth, backbone.safetensors, model.safetensors next to the card",
        ),
        ({"weights": "/etc/passwd"}, "weights must be one of"),
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
    ]
    for change, message in changes:
        write_json(card_file, {**card, **change})
        with pytest.raises(ValueError, match=message):
            load_exported(card_file)


def test_hostile_weights_beside_a_card_do_not_run(run_folder: Path, marker: Path) -> None:
    card_file, card = export_run(run_folder, "timm")
    weights = card_file.parent / card["weights"]
    torch.save(Evil(marker), weights)
    write_json(card_file, {**card, "sha256": file_checksum(weights)})
    with pytest.raises(ValueError, match="cannot be read"):
        load_exported(card_file)
    assert not marker.exists()


def test_a_card_that_is_no_json_is_named(tmp_path: Path) -> None:
    for text in ("{", "[]", "5", "[" * 100_000):
        (tmp_path / "card.json").write_text(text)
        with pytest.raises(ValueError, match=r"card\.json (is not JSON|has no library)"):
            load_exported(tmp_path / "card.json")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_checkpoint_is_told_in_words_of_ours(
    command: str, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = run_folder / "checkpoints" / "last.ckpt"
    whole = checkpoint.read_bytes()
    for content, reason in (
        (b"", "it is empty, so writing it was interrupted"),
        (whole[: len(whole) // 2], "its end is missing"),
        (bytes(1000), "it was not written by torch.save"),
        (b"text", "it was not written by torch.save"),
    ):
        checkpoint.write_bytes(content)
        assert cli.main([*COMMANDS[command], str(run_folder)]) == 2
        error = capsys.readouterr().err
        assert f"{checkpoint} cannot be read as a checkpoint: {reason}" in error
        assert not any(word in error for word in ("mmap", "weights_only", "Errno"))


def test_a_checkpoint_in_the_old_format_of_torch_is_read(tmp_path: Path) -> None:
    torch.save({"state_dict": {"x": torch.ones(2)}}, tmp_path / "old.ckpt", _use_new_zipfile_serialization=False)
    assert read_checkpoint(tmp_path / "old.ckpt")["state_dict"]["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("given", ["checkpoints/last.ckpt", "."])
def test_a_last_checkpoint_that_is_gone_gives_way_to_the_epoch_beside_it(
    given: str, run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last, epoch = run_folder / "checkpoints" / "last.ckpt", run_folder / "checkpoints" / "epoch-1.ckpt"
    last.rename(epoch)
    last.symlink_to("epoch-2.ckpt")
    assert find_checkpoint(run_folder / given) == epoch
    assert "last.ckpt is a link to epoch-2.ckpt, which does not exist: using epoch-1.ckpt" in capsys.readouterr().out
    epoch.write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"last\.ckpt is a link to epoch-2\.ckpt, which does not exist, and no other checkpoint"
    ):
        find_checkpoint(last)


def test_a_probe_is_added_to_results_without_probes(run_folder: Path) -> None:
    file = run_folder / "results.json"
    write_json(file, {**json.loads(file.read_text()), "probes": None})
    arguments = ["probe", str(run_folder), "--probe", "knn", "--add-to-results"]
    assert cli.main(arguments) == 0
    assert "offline_knn_encoder" in json.loads(file.read_text())["probes"]


def test_results_whose_probes_are_a_list_are_refused_before_the_work(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run_folder / "results.json"
    write_json(file, {**json.loads(file.read_text()), "probes": [1]})
    assert cli.main(["probe", str(run_folder), "--add-to-results"]) == 2
    assert "results.json: probes cannot be [1], so not written by radial-vicreg" in capsys.readouterr().err
    assert not (run_folder / "probes" / "features").exists()


def test_results_without_probes_are_summarised(run_folder: Path) -> None:
    file = run_folder / "results.json"
    content = {**json.loads(file.read_text()), "probes": None, "steps": 1, "seconds": 1.0}
    write_json(file, content)
    assert closing_lines(open_stored_run(run_folder), {"linear": "linear probe"})[0].startswith("finished: 1 epoch, ")
