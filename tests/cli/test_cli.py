"""The command line as a whole."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from helpers import one_line

from radial_vicreg import __version__, cli
from radial_vicreg.cli.commands import command_module, doctor
from radial_vicreg.cli.hydra_flags import parse_overrides, read_request
from radial_vicreg.data.sets import prepared_sets
from radial_vicreg.names.configurations import sweep_names


def test_the_version_is_printed_and_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == f"radial-vicreg {__version__}"
    assert cli.main([]) == 2
    assert "usage" in capsys.readouterr().out


RUN_LINES = """
import contextlib, io, json, sys
from radial_vicreg import cli
told = {}
for line in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(text):
        status = cli.main(line.split())
    told[line] = status, text.getvalue(), list(sys.modules)
print(json.dumps(told))
"""


def run_lines(lines: Iterable[str], cwd: Path) -> dict[str, tuple[int, str, set[str]]]:
    """Status, text and modules loaded so far, by command line, of one process that has loaded nothing before."""
    arguments = [sys.executable, "-c", RUN_LINES, json.dumps(list(lines))]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return {line: (status, text, set(loaded)) for line, (status, text, loaded) in json.loads(done.stdout).items()}


HELPS = ["--help", *(f"{command} --help" for command in cli.COMMANDS)]
HELPS += ["synthetic figure --help", "synthetic sweep --help"]
HELPS += [f"data {name} --help" for name in prepared_sets()]
LISTING = "sweep tables/figure4 --list"


def test_every_command_explains_itself_and_a_sweep_is_listed_without_pytorch(tmp_path: Path) -> None:
    told = run_lines([*HELPS, LISTING], tmp_path)
    status, listed, loaded = told.pop(LISTING)
    assert (status, "torch" in loaded) == (0, False)
    assert listed.startswith("0: radial-vicreg pretrain ")
    assert all(command in told["--help"][1] for command in cli.COMMANDS)
    for line, (status, text, loaded) in told.items():
        assert status == 0, line
        assert "usage" in text.lower(), line
        assert not {"torch", "numba", "numpy", "matplotlib", "solo"} & loaded, line
        assert re.search(r"``|:\w+:`", text) is None, f"markup in the help of {line}"
        examples = re.findall(r"^  (radial-vicreg .+)$", text.partition("example:\n")[2], re.MULTILINE)
        assert examples, f"no example in the help of {line}"
        for example in examples:
            assert " ".join(example.split()[1:]).startswith(line.removesuffix("--help").strip()), example
            parse_example(*shlex.split(example)[1:])
    assert all(name in told["sweep --help"][1] for name in sweep_names())


def parse_example(command: str, *arguments: str) -> None:
    """Raise the error of a command line that its command does not accept."""
    if command == "solo":
        return
    module = command_module(command)
    first, *rest = arguments or [""]
    if command == "synthetic" and first in module.PARTS:
        module.PARTS[first]().parse_args(rest)
    elif command in ("pretrain", "synthetic"):
        read_request(module.parser(), arguments)
    elif command == "sweep":
        parse_overrides(module.parser(), arguments)
    else:
        module.parser().parse_args(list(arguments))


MEANT = {
    "pretran": "'pretran' is not a command; did you mean `radial-vicreg pretrain`?",
    "help pretran": "'pretran' is not a command; did you mean `radial-vicreg pretrain --help`?",
    "figure 1 --preset quick": "did you mean `radial-vicreg synthetic figure 1 --preset quick`?",
    "figure 2 runs": "did you mean `radial-vicreg report runs`?",
    "cifar10 --out here": "did you mean `radial-vicreg data cifar10 --out here`?",
    "cifar100/resnet18/vicreg_d512": "`radial-vicreg pretrain --config-name cifar100/resnet18/vicreg_d512`?",
    "tables/table1 --status": "did you mean `radial-vicreg sweep tables/table1 --status`?",
    "version": "did you mean `radial-vicreg --version`?",
    "zzz": f"'zzz' is not a command; the commands are {', '.join(sorted(cli.COMMANDS))}",
}


def test_an_unknown_command_is_answered_with_the_command_line_that_was_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, said in MEANT.items():
        assert cli.main(words.split()) == 2
        one_line(capsys.readouterr().err, "radial-vicreg: error: ", said)


def test_no_command_retypes_its_choices() -> None:
    """A list in a command goes stale when its owner grows: a module of ``names/``, or the configuration."""
    files = list((Path(cli.__file__).parent / "commands").glob("*.py"))
    assert len(files) > len(cli.COMMANDS)
    retyped = {
        file.stem
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "choices" and isinstance(node.value, (ast.Tuple, ast.List))
    }
    assert retyped == set()


def test_one_module_builds_the_tables_that_commands_print() -> None:
    package = Path(cli.__file__).parents[1]
    found = {str(file.relative_to(package)) for file in package.rglob("*.py") if "rich.table" in file.read_text()}
    assert found == {"cli/tables.py"}


REFUSED_FIRST = {
    "try max_epoch=3": "max_epochs",
    "try nowhere": "nowhere is not a folder (looked for ",
    "try one two": "expected one folder, got 2: one, two",
    "try method=vicreg": "sets method itself; a single run is `radial-vicreg pretrain --config-name quickstart",
    "pretrain bad_key=1": "unknown key 'bad_key'",
    "pretrain quikstart max_epochs=1": "did you mean --config-name quickstart?",
    "pretrain max_epochs 3": "max_epochs is not an override (key=value); write max_epochs=3",
    "pretrain mine/own.yaml": "write --config-path mine --config-name own",
    "pretrain --max_epochs 3": "--max_epochs is not an option; settings are overrides: write max_epochs=3",
    "pretrain --lr 0.1 max_epochs=3": "write optimizer.lr=0.1",
    "pretrain --cheek": "--cheek is not an option; did you mean --check?",
    "pretrain --wandb.api_key=verysecret": "unrecognized arguments: --wandb.api_key; see radial-vicreg pretrain --help",
    "pretrain +optimizer.kwargs.momentun=1": "optimizer.kwargs momentun do not fit optimizer.name=lars",
    "pretrain --config-name cifar100/resnet18/vicreg_d521": "did you mean cifar100/resnet18/vicreg_d512?",
    "pretrain --multirun seed=1,2": "--multirun is not supported by radial-vicreg: each command trains one run",
    "pretrain --info searchpath": "`radial-vicreg configs` lists all of them",
    "pretrain --cfg all": "use --cfg job",
    "pretrain radialvicreg/optimizer=lrs": "there is no radialvicreg/optimizer=lrs; did you mean lars?",
    "pretrain augmentations.5.crop_size=3": "augmentations.5.crop_size: augmentations has 1 entry, whose index is 0",
    "pretrain data.dataset=cifra10": "did you mean cifar10?",
    "pretrain host=sool": "host must be one of auto, solo, standalone",
    "pretrain backbone.name=resnt18": "unknown backbone.name 'resnt18': did you mean resnet18?",
    "pretrain ckpt=no.ckpt": "ckpt=no.ckpt is not a file; give a checkpoint's path, ckpt=last or ckpt=auto",
    "pretrain runs_dir={file}": "exists and is a file, expected a folder",
    "pretrain --config-name quickstart": "digits/train): `radial-vicreg data digits` prepares it; or correct the path",
    "pretrain radialvicreg/dataset=imagenet10 data.format=image_folder": "data imagenet10 --imagenet DIR` prepares it",
    "pretrain --check --config-name quickstart data.train_path=nowhere": "data.train_path=nowhere does not exist",
    "pretrain --config-name quickstart data.train_path={root}": "has no class sub-folders",
    "pretrain --config-name quickstart radialvicreg/method=own method=mine loss._target_=no_package.Loss": (
        "loss._target_=no_package.Loss cannot be built: No module named 'no_package'"
    ),
    "sweep study --max_epochs 3 --list": "write max_epochs=3",
    "sweep tables/tabl1 --list": "did you mean tables/table1?",
    "sweep study --run bad_key=1": "unknown key 'bad_key'",
    "probe nowhere": "nowhere does not exist; give a run's folder or a checkpoint",
    "export nowhere": "nowhere does not exist; give a run's folder or a checkpoint",
    "diagnose nowhere": "nowhere does not exist; expected a run's folder, a checkpoint, an exported folder, FILE.npy, ",
    "diagnose timm:resnet18 --images nowhere": "--images=nowhere does not exist",
}
"""Command lines, each with a part of its error."""


def test_misspelt_names_and_missing_places_are_refused_without_pytorch(tmp_path: Path) -> None:
    """Importing PyTorch and Lightning takes seconds of CPU; one process has loaded neither after all of these."""
    file, root = tmp_path / "file", tmp_path / "empty"
    file.touch()
    root.mkdir()
    lines = {line.format(file=file, root=root): part for line, part in REFUSED_FIRST.items()}
    told = run_lines(lines, tmp_path)
    for line, part in lines.items():
        status, text, loaded = told[line]
        assert status == 2, f"{line}: {text}"
        assert not {"torch", "lightning", "timm", "torchvision", "sklearn", "scipy", "solo"} & loaded, line
        one_line(text, f"radial-vicreg {line.split()[0]}: error: ", part)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


@pytest.mark.slow
def test_doctor_reports_versions_plugin_and_host_without_loading_them(tmp_path: Path) -> None:
    status, told, loaded = run_lines(["doctor"], tmp_path)["doctor"]
    assert (status, {"torch", "solo"} & loaded) == (0, set())
    assert re.search(r"^torch +\d", told, re.MULTILINE)
    assert re.search(r"^device +(?!unknown)", told, re.MULTILINE)
    assert "Hydra plug-in  found" in told
    assert re.search(r"radial-vicreg pretrain would use the (solo|standalone) host\.", told)


def test_doctor_says_what_a_broken_pytorch_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^device +unknown: .*libcudart.so is missing", printed, re.MULTILINE)
    assert "No host can train." in printed


METADATA = """\
Metadata-Version: 2.1
Name: some-package
Version: 1
Requires-Dist: not-there-either>=1
Requires-Dist: rich>=999
Requires-Dist: pytest>=1
Provides-Extra: here
Requires-Dist: rich>=1; extra == 'here'
Provides-Extra: absent
Requires-Dist: no-such-package>=1; extra == 'absent'
Requires-Dist: rich>=1000; extra == 'absent'
Provides-Extra: elsewhere
Requires-Dist: no-such-package; extra == 'elsewhere' and python_version < '3'
"""


def test_doctor_names_every_extra_of_the_installed_metadata_and_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "some_package-1.dist-info").mkdir()
    (tmp_path / "some_package-1.dist-info" / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    found = doctor.extras("some-package")
    assert found.keys() == {"here", "absent", "elsewhere"}
    assert (found["here"], found["elsewhere"]) == ("yes", "yes")
    lacks = r"no \(no-such-package is missing, rich [\d.]+ is not >=1000\): pip install 'some-package\[absent\]'"
    assert re.fullmatch(lacks, found["absent"])
    assert doctor.outdated("some-package") == {"rich": " is not >=999: pip install 'rich>=999'"}
    assert doctor.outdated("not-installed") == {}
    assert doctor.extras("not-installed") == {"": "unknown: not-installed is not installed, only importable"}


WRONG = {
    "probe": "the following arguments are required: RUN_OR_CKPT; see radial-vicreg probe --help",
    "probe FOLDER": "folder contains no checkpoint: expected checkpoints/last.ckpt, or *.ckpt next to args.json",
    "probe FILE": "has neither results.json nor args.json",
    "probe FOLDER --probe forest": "--probe: invalid choice: 'forest'",
    "diagnose FOLDER --max-images 1": "--max-images 1: expected 2 or more",
    "diagnose FOLDER --device meta": "--device meta cannot be used (",
    "diagnose timm:resnet18": "timm:resnet18 has no images: pass a folder of images, --images DIR",
    "diagnose timm:resnet81 --images FOLDER": "timm has no model 'resnet81'; did you mean timm:resnet",
    "diagnose timm:resnet18.nope --images FOLDER --no-pretrained": "timm:resnet18.nope cannot be built: Invalid pre",
    "diagnose torchvision:resnet19 --images FOLDER": "torchvision has no model 'resnet19'; did you mean torchvision:",
    "diagnose torchvision:squeezenet1_0 --images FOLDER --no-pretrained": "does not end with a linear layer of "
    "1000 classes",
    "diagnose torchvision:resnet18 --images FOLDER --no-pretrained": "expected 2 or more usable images at any "
    "depth, found 0",
    "diagnose MATRIX --untrained": "--untrained needs a run among the sources",
    "diagnose MATRIX --no-pretrained": "--no-pretrained applies to timm:NAME and torchvision:NAME, and no source "
    "is one of them",
    "report GONE": "gone is not a folder; give the folder that contains your runs",
    "report FOLDER --against vicreg": "folder contains no finished run; `radial-vicreg runs folder` lists all runs",
    "sweep GONE": "gone is neither a sweep file nor the name of a sweep; own ones: celeba_resnet18, ",
    "sweep cifar100_resnet18_d512 --index 999": "--index 999: cifar100_resnet18_d512 has the runs 0 to 143",
    "data imagenet10 --imagenet FOLDER": "--imagenet=folder has no train/ and val/ with one folder per class",
    "data imagenet10 --imagenet FOLDER --split imagenette --classes clustering": "Imagenette does not contain "
    "--classes",
    "data celeba --source FOLDER": "--source folder has no img_align_celeba/: unpack the aligned images there",
    "synthetic --config-name synthetc": "there is no synthetic configuration 'synthetc'; did you mean synthetic?",
    "synthetic -m seed=1,2": "`radial-vicreg sweep FILE --run`",
    "synthetic --iterations 3": "write steps=3",
    "synthetic figur 1": "did you mean radial-vicreg synthetic figure?",
    "synthetic steps=-1": "steps at least 1, got 0, 10000 and -1",
    "pretrain --config-path FILE": "--config-path file is not a folder",
    "pretrain radialvicreg/dataset=folder": "data.train_path must be set, for example data.train_path=VALUE",
    "pretrain radialvicreg/dataset=folder data.train_path=FILE": "data.train_path=file is not a folder (looked for ",
    "pretrain data.train_path=FILE/inside": "file/inside cannot be written: file is not a folder; "
    "move it away or choose another place with data.train_path=DIR",
    "pretrain IMAGES ckpt=FILE": "/file cannot be read as a checkpoint: it was not written by torch.save",
    "pretrain IMAGES ckpt=FOLDER": "ckpt=folder is not a file",
    "pretrain IMAGES --check optimizer.batch_size=500": "too few for a batch of 500",
    "configs --config-path GONE": "gone is not a folder",
    "runs GONE": "gone is not a folder; give the folder that contains your runs (runs_dir)",
    "compare FOLDER FOLDER": "folder contains no run with results.json",
    "solo GONE": "no script gone here or in ",
}
"""A command line, and what its one line must say."""


@pytest.mark.parametrize("command", sorted({line.split()[0] for line in WRONG}))
def test_a_wrong_command_line_is_one_line_with_its_reason_and_exit_status_2(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tiny_overrides: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    np.save(tmp_path / "matrix.npy", np.eye(3))
    paths = {name: name.lower() for name in ("FILE", "FOLDER", "GONE")} | {"MATRIX": "matrix.npy"}
    for line, said in WRONG.items():
        if line.split()[0] != command or (line == "solo GONE" and importlib.util.find_spec("solo") is None):
            continue
        words = re.sub("|".join(paths), lambda found: paths[found[0]], line).split()
        if "IMAGES" in words:
            place = words.index("IMAGES")
            words[place : place + 1] = [*tiny_overrides, "host=standalone"]
        assert cli.main(words) == 2, line
        error = capsys.readouterr().err
        assert error.startswith(f"radial-vicreg {command}: error: "), line
        one_line(error, said)
        assert (tmp_path / "file").read_text() == "text"
        assert not list(tmp_path.glob("runs/**/results.json"))


def test_a_download_that_is_out_of_reach_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no network")

    monkeypatch.setattr("torchvision.datasets.CIFAR10.download", refuse)
    assert cli.main(["data", "cifar10", "--out", str(tmp_path / "cifar10")]) == 2
    one_line(capsys.readouterr().err, "could not be downloaded (no network)")
