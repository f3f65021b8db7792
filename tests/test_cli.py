"""The command line as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from radial_vicreg import __version__, cli
from radial_vicreg.data import check_image_folder


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(command in printed for command in cli.COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"radial-vicreg {__version__}"


@pytest.mark.parametrize("arguments", [[], ["pretran"]])
def test_no_command_or_an_unknown_one_is_a_usage_error(arguments: list[str]) -> None:
    assert cli.main(arguments) == cli.USAGE_ERROR


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = cli.main([command, "--help"])
    except SystemExit as stop:  # argparse
        status = stop.code
    assert status == 0
    assert "usage" in capsys.readouterr().out.lower()


def test_data_digits_prepares_an_image_folder(tmp_path: Path) -> None:
    assert cli.main(["data", "digits", "--out", str(tmp_path / "digits")]) == 0
    train, val = (check_image_folder(tmp_path / "digits" / split) for split in ("train", "val"))
    assert (train.num_images, val.num_images) == (1437, 360)
    assert train.class_names == val.class_names == tuple("0123456789")


def test_doctor_reports_versions_plugin_and_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "torch" in printed
    assert "Hydra plug-in  found" in printed
    assert "radial-vicreg pretrain would use the" in printed


def test_solo_without_a_script_tells_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["solo"]) == cli.USAGE_ERROR
    assert "SCRIPT.py" in capsys.readouterr().out


@pytest.mark.solo
def test_solo_names_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["solo", "no_such.py"]) == cli.USAGE_ERROR
    assert "no script no_such.py" in capsys.readouterr().err
