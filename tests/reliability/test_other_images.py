"""Another folder of images under the same name is another run's data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import results_of

from radial_vicreg import cli


@pytest.mark.slow
def test_a_run_goes_on_with_its_images_wherever_they_lie_and_with_no_others(
    run_settings: list[str],
    image_folder: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = [*run_settings, "host=standalone", "diagnostics.enabled=false", "max_epochs=2"]
    assert cli.main(settings) == 0
    other = image_folder("other", per_class=9)
    assert cli.main([*settings, f"data.train_path={other}", "ckpt=last"]) == 2
    assert "ckpt=last: no checkpoint of this configuration" in capsys.readouterr().err
    (first,) = (tmp_path / "runs").glob("*/*/checkpoints/epoch-1.ckpt")
    assert cli.main([*settings, f"data.train_path={other}", f"ckpt='{first}'"]) == 2
    assert "epoch-1.ckpt was trained on other images" in capsys.readouterr().err
    assert cli.main([*settings, f"data.train_path={other}", "ckpt=auto"]) == 0
    folders = [file.parent for file in (tmp_path / "runs").glob("*/*/results.json")]
    assert [results_of(folder)["steps"] for folder in folders] == [6, 6]
    moved = shutil.move(tmp_path / "train", tmp_path / "moved")
    assert cli.main([*settings, f"data.train_path={moved}", "ckpt=last"]) == 0
    assert len(list((tmp_path / "runs").glob("*/*/results.json"))) == 2
