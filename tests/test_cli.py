"""The command line as a whole."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

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
    assert cli.main(arguments) == 2


HELPS = [["--help"], *([command, "--help"] for command in cli.COMMANDS)]
HELPS += [["synthetic", "figure", "--help"], ["synthetic", "sweep", "--help"], ["data", "celeba", "--help"]]


@pytest.fixture(scope="module")
def helps() -> dict[str, Any]:
    """Status, text and heavy modules loaded so far, by command line, of one process that has loaded nothing else."""
    code = """
        import contextlib, io, json, sys
        from radial_vicreg import cli
        told = {}
        for line in json.loads(sys.argv[1]):
            with contextlib.redirect_stdout(io.StringIO()) as text:
                status = cli.main(line)
            heavy = sorted({"torch", "numba", "numpy", "matplotlib", "solo"} & set(sys.modules))
            told[" ".join(line)] = status, text.getvalue(), heavy
        print(json.dumps(told))
    """
    arguments = [sys.executable, "-c", textwrap.dedent(code), json.dumps(HELPS)]
    return json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("line", map(" ".join, HELPS))
def test_every_command_explains_itself_without_pytorch(line: str, helps: dict[str, Any]) -> None:
    status, text, heavy = helps[line]
    assert status == 0
    assert "usage" in text.lower()
    assert heavy == []


def test_data_digits_prepares_an_image_folder(tmp_path: Path) -> None:
    assert cli.main(["data", "digits", "--out", str(tmp_path / "digits")]) == 0
    train, val = (check_image_folder(tmp_path / "digits" / split) for split in ("train", "val"))
    assert (train.num_images, val.num_images) == (1437, 360)
    assert train.class_names == val.class_names == tuple("0123456789")


def test_doctor_reports_versions_plugin_and_host_without_loading_them() -> None:
    code = "import sys; from radial_vicreg import cli; status = cli.main(['doctor']);"
    code += "sys.exit(status or bool({'torch', 'solo'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^torch +\d", done.stdout, re.MULTILINE)
    assert re.search(r"^device +(?!unknown)", done.stdout, re.MULTILINE)
    assert "Hydra plug-in  found" in done.stdout
    assert re.search(r"radial-vicreg pretrain would use the (solo|standalone) host\.", done.stdout)


def test_doctor_says_what_a_broken_pytorch_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^device +unknown: .*libcudart.so is missing", printed, re.MULTILINE)
    assert "No host can train." in printed


def test_solo_without_a_script_tells_how_to_use_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["solo"]) == 2
    assert "SCRIPT.py" in capsys.readouterr().out


@pytest.mark.solo
def test_solo_names_a_script_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["solo", "no_such.py"]) == 2
    assert "no script no_such.py" in capsys.readouterr().err


WRONG = [
    "probe",
    "probe GONE",
    "probe FOLDER",
    "probe FILE",
    "probe FOLDER --probe forest",
    "probe FOLDER --seed one",
    "probe FOLDER --on-bad-image ignore",
    "export",
    "export GONE",
    "export FOLDER",
    "export FILE",
    "export FOLDER --format onnx",
    "report",
    "report GONE",
    "report FILE",
    "report FOLDER --out FILE",
    "report FOLDER --out FILE/inside",
    "report FOLDER --source both",
    "sweep",
    "sweep GONE",
    "sweep FOLDER",
    "sweep FILE",
    "sweep cifar100_resnet18_d51",
    "sweep cifar100_resnet18_d512 --index one",
    "sweep cifar100_resnet18_d512 --index 999",
    "sweep cifar100_resnet18_d512 --index -1",
    "sweep cifar100_resnet18_d512 --list --run",
    "sweep cifar100_resnet18_d512 --status nonsense=1",
    "data",
    "data mnist",
    "data digits --size 3",
    "data digits --size large",
    "data digits --out FILE",
    "data digits --out FILE/inside",
    "data digits --out FULL",
    "data imagenet10",
    "data imagenet10 --imagenet GONE",
    "data imagenet10 --imagenet FILE",
    "data imagenet10 --imagenet FOLDER",
    "data imagenet10 --imagenet FOLDER --split both",
    "data imagenet10 --imagenet FOLDER --classes cats",
    "data imagenet10 --imagenet FOLDER --split imagenette --classes clustering",
    "data celeba --source GONE",
    "data celeba --source FILE",
    "data celeba --source FOLDER",
    "synthetic nonsense=1",
    "synthetic steps=-1",
    "synthetic steps=many",
    "synthetic steps=2 points=50 out=FILE",
    "synthetic figure",
    "synthetic figure 2",
    "synthetic sweep --shard 3",
    "synthetic sweep --preset huge",
    "solo GONE",
    "solo FOLDER",
    "doctor now",
    "pretrain --nonsense",
    "pretrain --config-path FILE",
    "pretrain --config-name GONE",
    "pretrain shared/dataset=folder",
    "pretrain shared/dataset=folder data.train_path=GONE",
    "pretrain shared/dataset=folder data.train_path=FILE",
    "pretrain shared/dataset=folder data.train_path=FOLDER",
    "pretrain IMAGES runs_dir=FILE",
    "pretrain IMAGES ckpt=GONE",
    "pretrain IMAGES ckpt=FILE",
    "pretrain IMAGES ckpt=FOLDER",
]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_command_line_is_one_line_and_exit_status_2(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").write_text("text")
    (tmp_path / "full" / "something else").touch()
    words = []
    for word in line.split():
        for name in ("FILE", "FOLDER", "FULL", "GONE"):
            word = word.replace(name, name.lower())
        images = [*request.getfixturevalue("tiny_overrides"), "host=standalone"] if word == "IMAGES" else [word]
        words += images
    before = (tmp_path / "file").read_text()
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"radial-vicreg {words[0]}")
    assert error.count("\n") == 1
    assert (tmp_path / "file").read_text() == before
    assert not list(tmp_path.glob("runs/**/results.json"))


def test_a_download_that_is_out_of_reach_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no network")

    for name in ("CIFAR10", "CelebA"):
        monkeypatch.setattr(f"torchvision.datasets.{name}.download", refuse)
    for name in ("cifar10", "celeba"):
        assert cli.main(["data", name, "--out", str(tmp_path / name)]) == 2
        error = capsys.readouterr().err
        assert "could not be downloaded (no network)" in error
        assert error.count("\n") == 1
