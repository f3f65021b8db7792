"""A loss is imported for whoever wrote its configuration; one in a run's files is never looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import read_results

from radial_vicreg import cli


@pytest.fixture
def custom_run(
    finished_run: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], bool]:
    """A run in ``runs/a/b`` that names a loss which leaves a mark when it is imported; tells whether it was."""
    folder = tmp_path / "runs" / "a" / "b"
    shutil.copytree(finished_run("standalone"), folder, symlinks=True)
    results = read_results(folder)
    results["method"] = results["config"]["method"] = "mine"
    results["config"]["loss"] = {"_target_": "leaves_a_mark.Loss"}
    (folder / "results.json").write_text(json.dumps(results))
    for path in folder.glob("checkpoints/epoch-*.ckpt"):
        content = torch.load(path, weights_only=True)
        content["hyper_parameters"] = {"loss": {"_target_": "leaves_a_mark.Loss"}}
        torch.save(content, path)
    mark = tmp_path / "mark"
    (tmp_path / "leaves_a_mark.py").write_text(f"open({str(mark)!r}, 'w').close()\nclass Loss: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return mark.exists


def test_the_mark_shows_an_import(custom_run: Callable[[], bool]) -> None:
    __import__("leaves_a_mark")
    assert custom_run()


@pytest.mark.parametrize(
    "command",
    [
        ["probe", "runs/a/b"],
        pytest.param(["export", "runs/a/b", "--format", "safetensors", "--out", "exported"], marks=pytest.mark.slow),
        pytest.param(["report", "runs"], marks=pytest.mark.slow),
    ],
)
def test_a_run_with_a_loss_of_its_own_is_read_without_it(command: list[str], custom_run: Callable[[], bool]) -> None:
    assert cli.main(command) == 0
    assert not custom_run()
