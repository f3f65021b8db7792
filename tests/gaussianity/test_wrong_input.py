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


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "holds float64 of shape (3,), expected a matrix (N, d) or views (V, N, d) of floating"),
        (np.zeros((2, 3, 4, 5)), "holds float64 of shape (2, 3, 4, 5)"),
        (np.zeros((1, 3, 4)), "has 1 view of shape (3, 4): save a matrix (N, d), or 2 or more views"),
        (np.zeros((2, 1, 4)), "has 1 row, expected 2 or more embeddings"),
        (np.stack([GOOD, GOOD + np.inf]), "z: 3 of 6 embeddings of all views are not finite"),
        (np.zeros((3, 2), dtype=int), "holds int64 of shape (3, 2)"),
        (np.zeros((3, 0)), "holds float64 of shape (3, 0)"),
        (np.zeros((1, 4)), "has 1 row, expected 2 or more embeddings"),
        (np.array([[1.0, np.nan], [1.0, 2.0]]), "z: 1 of 2 embeddings (embeddings) are not finite"),
        (np.array([[1e200, 1.0], [1.0, 2.0]]), "z: 1 of 2 embeddings (embeddings) are not finite, or too large"),
        (np.array([[1e30, 1.0], [1.0, 2.0]]), "not finite, or too large for float32"),
        (
            np.array([[{}, 1.0], [1.0, 2.0]], dtype=object),
            "cannot be read: it is incomplete, or not a .npy of plain numbers",
        ),
    ],
    ids=[
        "1-D",
        "4-D",
        "one view",
        "views of one image",
        "bad second view",
        "integers",
        "no columns",
        "one row",
        "nan",
        "beyond float32",
        "norm beyond",
        "objects",
    ],
)
def test_a_matrix_that_is_none(array: Any, message: str, matrix: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(matrix(array))]) == 2
    one_line(capsys.readouterr().err, message)


@pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY\x01\x00"], ids=["empty", "text", "cut short"])
def test_a_file_that_is_no_npy(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "z.npy").write_bytes(content)
    assert main(["diagnose", str(tmp_path / "z.npy")]) == 2
    one_line(capsys.readouterr().err, "z.npy cannot be read: it is incomplete, or not a .npy of plain numbers")


def test_an_archive_named_npy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(tmp_path / "z.npy", "wb") as stream:
        np.savez(stream, a=GOOD)
    assert main(["diagnose", str(tmp_path / "z.npy")]) == 2
    one_line(capsys.readouterr().err, "z.npy holds an archive, expected a matrix (N, d)")


def test_a_run_with_figures_and_weights_of_different_epochs(
    tiny_overrides: list[str],
    tmp_path: Path,
    make_older_weights: Callable,
    diagnosed: Callable,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = write_finished_run(tmp_path / "run", composed("radialvicreg", *tiny_overrides), epochs=2)
    older = make_older_weights(folder)
    assert main(["diagnose", str(folder)]) == 2
    one_line(capsys.readouterr().err, "results of epoch 2", "weights of epoch 1", f"pass {older}")
    (source,) = diagnosed(older)["sources"]
    assert (source["details"]["epoch"], source["details"]["checkpoint"]) == (1, "epoch-1.ckpt")


def test_a_folder_above_several_runs_names_them(
    finished_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        shutil.copy(finished_run("standalone") / "results.json", tmp_path / "runs" / name)
    assert main(["diagnose", str(tmp_path / "runs")]) == 2
    one_line(capsys.readouterr().err, "runs contains 2 runs, give one of them: ")


def test_an_export_needs_images(finished_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export_run(finished_run("standalone"), "timm", tmp_path / "export")
    assert main(["diagnose", str(tmp_path / "export")]) == 2
    one_line(capsys.readouterr().err, "export has no images: pass a folder of images, --images DIR")


def test_an_export_whose_card_does_not_say_how_images_are_normalised(
    finished_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card_file, card = export_run(finished_run("standalone"), "timm", tmp_path / "export")
    card_file.write_text(json.dumps({**card, "normalisation": {"mean": 3}}))
    assert main(["diagnose", str(card_file), "--images", str(tmp_path)]) == 2
    one_line(capsys.readouterr().err, "card.json does not contain how images are normalised")


def test_a_run_whose_images_are_gone_is_told_about_the_option(
    finished_run: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True)
    results = json.loads((run / "results.json").read_text())
    results["config"]["data"]["val_path"] = "gone"
    (run / "results.json").write_text(json.dumps(results))
    assert main(["diagnose", str(run)]) == 2
    one_line(capsys.readouterr().err, "the run's images cannot be read; pass others as --images DIR: ", "gone")


def test_a_target_in_somebody_s_run_is_never_called(finished_run: Callable, tmp_path: Path) -> None:
    run = shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True)
    results = json.loads((run / "results.json").read_text())
    results["config"]["loss"] = {"_target_": "pathlib.Path.touch", "_args_": [str(tmp_path / "ran")]}
    for method in ("radialvicreg", "somebody_s_own"):
        results["config"]["method"] = method
        (run / "results.json").write_text(json.dumps(results))
        assert main(["diagnose", str(run)]) in (0, 2)
        assert not (tmp_path / "ran").exists()


def test_a_network_that_gives_maps_and_not_vectors_is_named() -> None:
    class Maps(nn.Conv2d):
        def forward(self, x: torch.Tensor) -> Any:
            return {"feats": super().forward(x)}

    images: Any = [(torch.zeros(3, 8, 8), -1)] * 3
    source = Network("maps", {}, Maps(3, 4, 3), {"encoder": "feats"}, images, workers=0)
    with pytest.raises(ValueError, match=r"maps: expected one vector per image, got encoder outputs \(3, 4, 6, 6\)"):
        _measure(source, Settings(device="cpu"))
