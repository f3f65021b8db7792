"""Results and settings of strangers: a bad file is one line, it blocks no other, and nothing in it is carried out."""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import one_line, read_results
from markupsafe import escape

from radial_vicreg import cli
from radial_vicreg.compose import arguments_config
from radial_vicreg.config.stored import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.runs.loaded import open_run
from radial_vicreg.runs.stored import stored_runs

HUGE = 10**400
#: Values that no run writes, by their dotted keys, and what is said of the file.
STRANGE: dict[str, tuple[Any, str]] = {
    "seed": (HUGE, "seed cannot be 1000"),
    "schema_version": (HUGE, "schema_version cannot be 1000"),
    "seconds": (float("nan"), "seconds cannot be nan"),
    "config.max_epochs": (HUGE, "config.max_epochs cannot be 1000"),
    "config.optimizer.lr": (float("inf"), "config.optimizer.lr cannot be inf"),
    "config.probes.knn_neighbours": ([1, float("nan")], "config.probes.knn_neighbours.1 cannot be nan"),
    "config.data": (["x"], "its configuration is not of VICReg or Radial-VICReg"),
    "config.optimizer": (None, "VICReg: optimizer must be a section with keys, got None"),
    "config.tag": ("\x1b[2Ja\nb", r"VICReg: tag must be a text of one line, or null, got '\x1b[2Ja\nb'"),
    "config.precision": (["x"], "VICReg: precision must be one of "),
    "config.method_kwargs.radial_objective": ("$\\nosuch$", "VICReg: method_kwargs.radial_objective must be one of kl"),
    "config.loss": (5, "its configuration is not of VICReg or Radial-VICReg"),
    "probes.online_linear": ({"top1": float("nan")}, "probes.online_linear.top1 cannot be nan"),
    "history": ([{"epoch": HUGE}], "history.0.epoch cannot be 1000"),
    "radii": ([1], "radii cannot be [1]"),
    "probes": ({"online_linear": {"top1": "high"}}, "probes.online_linear.top1 cannot be 'high'"),
    "radii.final": (
        {"histogram": {"edges": [0.0, 1.0], "density": [1.0, 2.0]}},
        "radii.final.histogram cannot be {'density': [1.0, 2.0], 'edges': [0.0, 1.0]}",
    ),
}
#: Values that are odd, and that no reader may stumble over.
ODD: dict[str, Any] = {
    "config.method": "$\\nosuch$",
    "config.data.name": "$\\frac$ <script>alert(1)</script>",
    "method": "radialvicreg\x1b[2J",
    "host": "$\\nosuch$",
    "started": "0001-01-01T00:00:00+23:59",
    "versions": {"radial-vicreg": "none", "torch": None},
    "probes.online_linear": {"top1": 1e308},
}


def put(content: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(content)
    *path, last = key.split(".")
    node = changed
    for name in path:
        node = node.setdefault(name, {})
    node[last] = value
    return changed


@pytest.fixture
def runs(run_folder: Path) -> Path:
    """A folder with a good run and a file for each strange and odd value."""
    folder = run_folder.parent / "runs"
    folder.mkdir()
    run_folder.rename(folder / "good")
    content = read_results(folder / "good")
    values = {**{key: value for key, (value, _) in STRANGE.items()}, **{f"{key} ": value for key, value in ODD.items()}}
    for name, value in values.items():
        (folder / name).mkdir()
        (folder / name / "results.json").write_text(json.dumps(put(content, name.strip(), value)))
    (folder / "deep").mkdir()
    deep = '{"a":' * 900 + "1" + "}" * 900
    (folder / "deep" / "results.json").write_text(f'{{"schema_version": 2, "status": "finished", "config": {deep}}}')
    return folder


def test_a_list_of_runs_has_a_line_for_each_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["runs", str(runs)]) == 0
    shown = capsys.readouterr()
    for key, (_, reason) in STRANGE.items():
        (line,) = (line for line in shown.err.splitlines() if f"{runs / key / 'results.json'}: " in line)
        assert line.startswith("not listed: ")
        assert reason in line
    assert f"{runs / 'good'} " in shown.out
    assert "\x1b" not in shown.out + shown.err
    assert "radialvicreg\\x1b[2J" in shown.out
    assert cli.main(["runs", str(runs), "--json"]) == 0
    assert {Path(run["run"]).name for run in json.loads(capsys.readouterr().out)}.isdisjoint(STRANGE)
    assert cli.main(["runs", str(runs), "--check"]) == 0
    names = {run.folder.name for run in stored_runs(runs)}  # what sweeps and resumed runs look through
    assert "good" in names
    assert names.isdisjoint(STRANGE)


def test_a_report_draws_the_others(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the deviation of 1e308 is no number
        assert cli.main(["report", str(runs), "--out", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert "<script>alert" not in page
    assert " unrecognized" in capsys.readouterr().out
    for key, (_, reason) in STRANGE.items():
        assert re.search(rf"<tr><t[hd][^>]*>{re.escape(key)}/results.json</t[hd]><td>unrecognized</td>", page)
        assert escape(reason) in page


def test_results_are_never_interpolated(run_folder: Path) -> None:
    content = read_results(run_folder)
    bomb = {"x0": "a" * 10, **{f"x{level}": f"${{x{level - 1}}}" * 9 for level in range(1, 14)}}
    config = stored_config({**content["config"], **bomb, "tag": "${oc.env:HOME}"})
    assert config.tag == "${oc.env:HOME}"
    assert (config.model_extra or {})["x13"] == bomb["x13"]
    (run_folder / "results.json").write_text(json.dumps({**content, "config": {**content["config"], **bomb}}))
    assert open_run(run_folder).config.seed == content["config"]["seed"]


@pytest.mark.parametrize(
    "level",
    [
        lambda below: f"${{{below}}}" * 9,
        lambda below: [f"${{{below}}}"] * 9,
        lambda below: {f"k{index}": f"${{...{below}}}" for index in range(9)},
    ],
    ids=["text", "list", "relative"],
)
def test_references_of_args_json_that_blow_up_are_refused(
    level: Callable[[str], Any], run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = read_results(run_folder)["config"]
    bomb = {"x0": "a", **{f"x{number}": level(f"x{number - 1}") for number in range(1, 14)}}
    (run_folder / "results.json").unlink()
    (run_folder / "args.json").write_text(json.dumps({**config, **bomb}))
    assert cli.main(["export", str(run_folder), "--format", "timm"]) == 2
    one_line(capsys.readouterr().err, "refers to more than 100,000 values by way of ${key}")


def test_args_json_is_resolved_without_the_environment(monkeypatch: pytest.MonkeyPatch, run_folder: Path) -> None:
    monkeypatch.setenv("MY_NAME", "resolved")
    config = read_results(run_folder)["config"]
    config["rate"] = config["optimizer"]["lr"]
    config["optimizer"]["lr"] = "${rate}"
    config["scheduler"]["warmup_epochs"] = "${..max_epochs}"
    for key in ("tag", "runs_dir"):
        config[key] = "${oc.env:MY_NAME}"
    config["wandb"] = {"entity": "a-${oc.env:MY_NAME}", "project": "${${wandb.entity}}"}
    config["list"] = ["${oc.env:MY_NAME}", {"x": "${oc.decode:1}"}]
    found = arguments_config(config)
    assert (found.optimizer.lr, found.scheduler.warmup_epochs) == (config["rate"], config["max_epochs"])
    assert "resolved" not in str(found)
    assert (found.tag, found.runs_dir, found.wandb.entity) == (None, "runs", None)
    with pytest.raises(UserError, match=r"optimizer\.lr is not set"):
        arguments_config({**config, "optimizer": {**config["optimizer"], "lr": "${oc.decode:0.3}"}})
