"""Whatever is wrong with a source is one line that says what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers import composed, one_line, write_finished_run
from torch import nn

from radial_vicreg.cli import main
from radial_vicreg.export import export_run
from radial_vicreg.gaussianity.measure import _measure
from radial_vicreg.gaussianity.settings import Settings
from radial_vicreg.gaussianity.sources import Network

GOOD = np.zeros((3, 2), dtype=np.float32)

Refused = Callable[..., None]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Asserts that a command line is refused in one line that holds some words."""

    def check(command: list[object], *words: str) -> None:
        assert main(["diagnose", *map(str, command)]) == 2
        one_line(capsys.readouterr().err, *words)

    return check


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "holds float64 of shape (3,), expected a matrix (N, d) or views (V, N, d) of floating"),
        (np.zeros((3, 2), dtype=int), "holds int64 of shape (3, 2)"),
        (np.zeros((1, 3, 4)), "has 1 view of shape (3, 4): save a matrix (N, d), or 2 or more views"),
        (np.zeros((2, 1, 4)), "has 1 row, expected 2 or more embeddings"),
        (np.zeros((1, 4)), "has 1 row, expected 2 or more embeddings"),
        (np.stack([GOOD, GOOD + np.inf]), "z: 3 of 6 embeddings of all views are not finite"),
        (np.array([[1e200, 1.0], [1.0, 2.0]]), "z: 1 of 2 embeddings (embeddings) are not finite, or too large"),
        (np.array([[1e30, 1.0], [1.0, 2.0]]), "not finite, or too large for float32"),
        (np.array([[{}, 1.0]], dtype=object), "cannot be read: it is incomplete, or not a .npy of plain numbers"),
    ],
    ids=["1-D", "integers", "one view", "views of one image", "one row", "bad view", "size", "norm", "objects"],
)
def test_a_matrix_that_is_none(array: Any, message: str, matrix: Callable, refused: Refused) -> None:
    refused([matrix(array)], message)


def test_a_file_that_is_no_npy(tmp_path: Path, refused: Refused) -> None:
    file = tmp_path / "z.npy"
    for content in (b"", b"\x93NUMPY\x01\x00"):
        file.write_bytes(content)
        refused([file], "z.npy cannot be read: it is incomplete, or not a .npy of plain numbers")
    with file.open("wb") as stream:
        np.savez(stream, a=GOOD)
    refused([file], "z.npy holds an archive, expected a matrix (N, d)")


def test_a_run_with_figures_and_weights_of_different_epochs(
    tiny_overrides: list[str], tmp_path: Path, make_older_weights: Callable, diagnosed: Callable, refused: Refused
) -> None:
    folder = write_finished_run(tmp_path / "run", composed("radialvicreg", *tiny_overrides), epochs=2)
    older = make_older_weights(folder)
    refused([folder], "results of epoch 2", "weights of epoch 1", f"pass {older}")
    (source,) = diagnosed(older)["sources"]
    assert (source["details"]["epoch"], source["details"]["checkpoint"]) == (1, "epoch-1.ckpt")


def test_a_folder_above_several_runs_names_them(finished_run: Callable, tmp_path: Path, refused: Refused) -> None:
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        shutil.copy(finished_run("standalone") / "results.json", tmp_path / "runs" / name)
    refused([tmp_path / "runs"], "runs contains 2 runs, give one of them: ")


def test_an_export_needs_images_and_a_card_that_says_how_they_are_normalised(
    finished_run: Callable, tmp_path: Path, refused: Refused
) -> None:
    card_file, card = export_run(finished_run("standalone"), "timm", tmp_path / "export")
    refused([tmp_path / "export"], "export has no images: pass a folder of images, --images DIR")
    card_file.write_text(json.dumps({**card, "normalisation": {"mean": 3}}))
    refused([card_file, "--images", tmp_path], "card.json does not contain how images are normalised")


@pytest.fixture
def changed_run(finished_run: Callable, tmp_path: Path) -> Callable[..., Path]:
    """A run with other keys of its stored configuration."""

    def change(**keys: Any) -> Path:
        run = tmp_path / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(finished_run("standalone"), run, symlinks=True)
        results = json.loads((run / "results.json").read_text())
        results["config"].update(keys)
        (run / "results.json").write_text(json.dumps(results))
        return run

    return change


def test_a_run_whose_images_are_gone_is_told_about_the_option(changed_run: Callable, refused: Refused) -> None:
    data = {"dataset": "custom", "format": "image_folder", "train_path": "gone", "val_path": "gone"}
    refused([changed_run(data=data)], "the run's images cannot be read; pass others as --images DIR: ", "gone")


def test_a_target_in_somebody_s_run_is_never_called(changed_run: Callable, tmp_path: Path) -> None:
    target = {"_target_": "pathlib.Path.touch", "_args_": [str(tmp_path / "ran")]}
    for method in ("radialvicreg", "somebody_s_own"):
        assert main(["diagnose", str(changed_run(loss=target, method=method))]) in (0, 2)
        assert not (tmp_path / "ran").exists()


def test_a_network_that_gives_maps_and_not_vectors_is_named() -> None:
    class Maps(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> Any:
            return {"feats": super().forward(x)}

    images: Any = [(torch.zeros(3, 8, 8), -1)] * 3
    source = Network("maps", {}, Maps(3, 4, 3), {"encoder": "feats"}, images, workers=0)
    with pytest.raises(ValueError, match=r"maps: expected one vector per image, got encoder outputs \(3, 4, 6, 6\)"):
        _measure(source, Settings(device="cpu"))
