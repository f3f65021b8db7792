"""Each example runs from any folder with what is installed, downloads nothing and leaves nothing behind."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch

from radial_vicreg import RadialVICRegLoss

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST = 72  # lines: an example is read before it is run

#: Settings that make each a matter of seconds.
SMALL = {
    "lightly_vicreg": ["--epochs", "1"],
    "lightning_module": ["--epochs", "1"],
    "micro_batches": ["--steps", "10"],
    "offset": [],
    "plain_pytorch": ["--steps", "10"],
    "timm_image_folder": ["--epochs", "1", "--model", "resnet10t", "--size", "32"],
}
#: Of a table of numbers: its first column, and the others.
ROW = r"^\| ([^-|]+) \| ([-\d. |]+) \|$"
RADIUS = r"mean radius (\d+\.\d\d) \(target (\d+\.\d\d)\)"


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable:
    """Runs an example in an empty folder, and returns what it printed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    def run(name: str, *arguments: str) -> str:
        if name == "lightly_vicreg":
            pytest.importorskip("lightly")
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *SMALL[name], *arguments])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        assert list(elsewhere.iterdir()) == []
        return capsys.readouterr().out

    return run


def test_every_example_is_run_here_and_short() -> None:
    lengths = {file.stem: len(file.read_text().splitlines()) for file in EXAMPLES.glob("*.py")}
    assert lengths.keys() == SMALL.keys()
    assert max(lengths.values()) <= LONGEST, lengths


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL.keys() - {"offset"}))
def test_an_example_trains_towards_the_radius_that_it_names(name: str, run_example: Callable[..., str]) -> None:
    found = re.findall(RADIUS, run_example(name))
    assert found
    radius, target = map(float, found[-1])
    assert 0.5 * target < radius < 1.5 * target  # an untrained projector is at 0.4 of it


def test_the_gradient_of_the_example_s_micro_batches_is_that_of_the_whole_batch() -> None:
    features = runpy.run_path(str(EXAMPLES / "micro_batches.py"))["features"]
    backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.Tanh()).double()
    images = torch.randn(10, 3, 2, 2, dtype=torch.float64)
    loss = RadialVICRegLoss()
    found = []
    for z in (backbone(images), features(backbone, images, size=4)):
        found.append(torch.autograd.grad(loss(z, z.flip(0)), list(backbone.parameters())))
    for whole, split in zip(*found, strict=True):
        torch.testing.assert_close(split, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_the_tables_of_the_offset_are_those_of_its_page(run_example: Callable[..., str]) -> None:
    page = (EXAMPLES.parent / "docs" / "offset.md").read_text()
    rows = dict(re.findall(ROW, page, flags=re.MULTILINE))
    found = dict(re.findall(ROW, run_example("offset"), flags=re.MULTILINE))
    assert list(found) == list(rows)
    for name, row in found.items():  # the hinge has corners: the last digits are the processor's
        values, printed = ([float(value) for value in text.split(" | ")] for text in (row, rows[name]))
        assert values == pytest.approx(printed, abs=0.03), name
    assert float(found["KL, beta1 100, 1/d"].split(" | ")[0]) > 0.2
    assert float(found["KL + mean"].split(" | ")[0]) < 0.01


@pytest.mark.slow
def test_lightlys_takes_a_folder_of_images(run_example: Callable[..., str], image_folder: Callable[..., Path]) -> None:
    images = image_folder(classes=2, per_class=32)
    assert re.search(RADIUS, run_example("lightly_vicreg", "--images", str(images)))


@pytest.mark.slow
def test_timms_takes_a_folder_of_images_and_keeps_a_backbone_that_timm_loads(
    run_example: Callable[..., str], image_folder: Callable[..., Path], tmp_path: Path
) -> None:
    images, file = image_folder(classes=2, per_class=32), tmp_path / "backbone.pth"
    assert re.search(RADIUS, run_example("timm_image_folder", "--images", str(images), "--out", str(file)))
    model = timm.create_model("resnet10t", num_classes=0, checkpoint_path=str(file))
    assert torch.equal(model.state_dict()["conv1.0.weight"], torch.load(file, weights_only=True)["conv1.0.weight"])
