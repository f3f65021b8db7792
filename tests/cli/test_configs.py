"""Configurations are found by name: listed, completed by a shell, and suggested for a misspelt one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import one_line
from terminals import in_terminal

from radial_vicreg import cli
from radial_vicreg.compose import compose
from radial_vicreg.names.configurations import CONFIGURATIONS, configurations, sweep_names

NAMES = {found.name: found.about for found in configurations()}


def test_what_is_listed_is_every_file_that_composes_with_one_line_each() -> None:
    files = {file.relative_to(CONFIGURATIONS).with_suffix("").as_posix() for file in CONFIGURATIONS.rglob("*.yaml")}
    below = {name.removeprefix("radialvicreg/") for name in files if name.startswith("radialvicreg/")}
    runs = {name for name in below if name == "quickstart" or name.startswith("study")}
    assert NAMES.keys() == {name for name in files if not name.startswith("radialvicreg/")} | runs
    for name in ("quickstart", "cell", "celeba/resnet18/vicreg_d512"):
        assert compose(name, []) is not None
    assert NAMES["cifar100/resnet18/radialvicreg_w1_d512"] == "Figure 4: the Wasserstein objective, gamma 1"
    for name, text in NAMES.items():
        assert 10 < len(text) <= 130, name
        assert "\n" not in text, name
        assert not text.endswith((".", ":", ",")), name


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a configuration of one's own, and one that hides the package's."""
    folder = tmp_path / "mine"
    (folder / "inner").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "inner" / "study.yaml").write_text("# My study\ndefaults: [/radialvicreg, _self_]\n")
    (folder / "quickstart.yaml").write_text("# My start\ndefaults: [/radialvicreg, _self_]\n")
    (folder / ".git" / "hidden.yaml").write_text("# Not mine\n")
    return folder


def test_a_folder_of_ones_own_comes_first_and_hides_names(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["configs", "--config-path", str(mine), "--json"]) == 0
    listed = {one["name"]: one["about"] for one in json.loads(capsys.readouterr().out)}
    assert list(listed)[:2] == ["quickstart", "inner/study"]
    assert listed == {**NAMES, "quickstart": "My start", "inner/study": "My study"}


def test_in_a_pipe_a_configuration_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["configs"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["--config-name", "description"]
    assert [line.split(maxsplit=1) for line in lines] == [[name, NAMES[name]] for name in NAMES]


def test_a_terminal_shows_every_line_whole(tmp_path: Path) -> None:
    lines = in_terminal(["configs"], 60, tmp_path)
    assert max(map(len, lines)) <= 60
    assert not [line for line in lines if "\u2026" in line]
    letters = "".join("".join(lines).split())
    for text in (*NAMES, *NAMES.values()):
        assert "".join(text.split()) in letters


def test_a_misspelt_name_is_looked_for_in_ones_own_folder(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pretrain", "-cd", str(mine), "-cn", "inner/studdy"]) == 2
    one_line(capsys.readouterr().err, f"'inner/studdy' in {mine} or in radial-vicreg; did you mean inner/study?")


ASK = """
import json, os, sys
real, heavy = os._exit, ("torch", "numpy", "omegaconf", "hydra", "pydantic")
class Answered(BaseException): pass
def answered(status): raise Answered
os._exit = answered
from radial_vicreg.cli import main
answers = []
for number, line in enumerate(json.loads(sys.argv[1])):
    file = f"answer-{number}"
    os.environ.update(COMP_LINE=line, COMP_POINT=str(len(line)), _ARGCOMPLETE_STDOUT_FILENAME=file)
    try:
        main()
    except Answered:
        answers.append([open(file).read(), [name for name in heavy if name in sys.modules]])
print(json.dumps(answers))
"""


def completions(lines: list[str], folder: Path) -> list[set[str]]:
    """What a shell is offered at the end of each line, by one process that loads nothing heavy."""
    settings = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_TYPE": "9"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, json.dumps(lines)],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    assert [loaded for _, loaded in answers] == [[]] * len(lines)  # it runs at every Tab
    return [{word.strip() for word in text.split("\n") if word.strip()} for text, _ in answers]


OFFERED = {
    "radial-vicreg pre": {"pretrain"},
    "radial-vicreg pretrain --ch": {"--check"},
    "radial-vicreg pretrain --config-name quick": {"quickstart"},
    "radial-vicreg pretrain -cn cifar100/vit": {name for name in NAMES if name.startswith("cifar100/vit")},
    "radial-vicreg pretrain -cp mine -cn inner/": {"inner/study"},
    "radial-vicreg sweep tables/": {name for name in sweep_names() if name.startswith("tables/")},
    "radial-vicreg sweep mine/q": {"mine/quickstart.yaml"},
    "radial-vicreg probe x --features ": {"encoder", "projector"},
    "radial-vicreg data cif": {"cifar10", "cifar100"},
    "radial-vicreg synthetic fig": {"figure"},
    "radial-vicreg synthetic figure --see": {"--seeds"},
    "radial-vicreg solo min": {"mine/"},
}


@pytest.mark.usefixtures("mine")
def test_a_shell_completes_commands_options_and_names(tmp_path: Path) -> None:
    options = [f"radial-vicreg {command} --" for command in cli.COMMANDS if command != "solo"]
    commands, *found = completions(["radial-vicreg ", *OFFERED, *options], tmp_path)
    assert {word for word in commands if not word.startswith("-")} == set(cli.COMMANDS)
    assert dict(zip(OFFERED, found, strict=False)) == OFFERED
    for line, words in zip(options, found[len(OFFERED) :], strict=True):
        assert "--help" in words, line


def test_the_documented_line_works_in_bash(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    if not (tools / "radial-vicreg").is_file() or not (tools / "register-python-argcomplete").is_file():
        pytest.skip("the package's commands are not installed beside this Python")
    script = r"""
        eval "$(register-python-argcomplete radial-vicreg)"
        COMP_LINE="radial-vicreg pretrain --config-name quick" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
        COMP_WORDS=(radial-vicreg pretrain --config-name quick) COMP_CWORD=3
        $(complete -p radial-vicreg | sed 's/.*-F \([^ ]*\).*/\1/') radial-vicreg quick --config-name
        echo "offered: ${COMPREPLY[*]}"
    """
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["offered:", "quickstart"], done.stderr
