"""Measure what users, their files and their scripts see of the package, and write it to the JSON files beside this one.

``PYTHONPATH=tests python tests/golden/freeze.py`` rewrites the files; ``test_frozen.py`` compares them with the
current code. Everything is measured from outside, through the command line and the files of runs, so that modules can
move.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from cases import CONFIGURATIONS, IDENTITIES, PRODUCTS, REPOSITORY, RUN_TOPICS, RUNS
from helpers import make_solo_vit_small

import yaml
from radial_vicreg import cli
from radial_vicreg.config.stored import stored_config
from radial_vicreg.runs.identity import Identity, config_hash

HERE = Path(__file__).parent

Flat = dict[str, Any]


class Call(NamedTuple):
    """What a command line left behind."""

    status: int
    out: str
    err: str


def call(arguments: list[str], folder: Path) -> Call:
    """Run the command line in a folder."""
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = cli.main(arguments)
    finally:
        os.chdir(before)
    return Call(status, out.getvalue(), err.getvalue())


def must_work(arguments: list[str], folder: Path) -> str:
    """Run the command line and return what it printed."""
    done = call(arguments, folder)
    assert done.status == 0, f"radial-vicreg {' '.join(arguments)}: status {done.status}\n{done.err}"
    return done.out


@cache
def composed(words: str) -> dict[str, Any]:
    """The configuration that ``--cfg`` prints for a name and overrides."""
    name, *overrides = words.split()
    config: dict[str, Any] = yaml.safe_load(must_work(["pretrain", "--config-name", name, "--cfg", *overrides], HERE))
    return config


def measure_configuration(words: str) -> Flat:
    return flatten(composed(words))


def measure_identity(words: str) -> Flat:
    config = composed(words)
    processes = len(config["devices"])  # of "1" and of [0, 1]
    return {"config_hash": config_hash(config, processes), "experiment_hash": config_hash(config, processes, False)}


def measure_identity_of_0_2(words: str) -> Flat:
    """The hashes as release 0.2 computed them: its runs are found by them."""
    config = composed(words)
    return Identity.of_release_0_2(stored_config(config), len(config["devices"])).hashes


def train(name: str, root: Path) -> Path:
    """Make one of the runs and return its folder."""
    with pytest.MonkeyPatch.context() as patch:
        if name == "solo":
            make_solo_vit_small(patch)
        must_work(["pretrain", *RUNS[name], "runs_dir=runs"], root)
    (results,) = root.glob("runs/*/*/results.json")
    return results.parent


def measure_run(folder: Path) -> dict[str, Flat]:
    """By topic, what a run left in its folder."""
    results = json.loads((folder / "results.json").read_text())
    checkpoint = torch.load(
        folder / "checkpoints" / "last.ckpt", weights_only=True
    )  # it must load without running code
    measured = (
        _folder(folder, results),
        _checkpoint(checkpoint),
        _logged_names(folder, results),
        shape(results),
        _numbers(results),
    )
    return dict(zip(RUN_TOPICS, measured, strict=True))


def measure_products(folder: Path) -> Flat:
    """Shapes of the JSON files that commands make from a run, one after the other."""
    for line in PRODUCTS:
        must_work([str(folder) if word == "RUN" else word for word in line.split()], folder)
    found = {"results.json": json.loads((folder / "results.json").read_text())["probes"]}
    for pattern in ("probes/*.json", "export/*/*.json"):
        found |= {str(file.relative_to(folder)): json.loads(file.read_text()) for file in folder.glob(pattern)}
    for content in found.values():
        if "config" in content:
            content["config"] = {}  # that of results.json, which is frozen with the run
    return {f"{file}: {key}": kind for file, content in found.items() for key, kind in shape(content).items()}


def _folder(folder: Path, results: dict[str, Any]) -> Flat:
    """Names of folder and files, and the values in results.json by which runs are told apart."""
    time = re.sub(r"^\d{8}-\d{6}$", "YYYYMMDD-HHMMSS", folder.name)
    files = sorted(file for file in folder.rglob("*") if not file.is_dir())
    return {
        "folder": f"{folder.parent.name}/{time}",
        **{key: results[key] for key in ("name", "config_hash", "experiment_hash", "schema_version", "status")},
        "data.fingerprint": results["config"]["data"]["fingerprint"],
        **{f"file {file.relative_to(folder)}": os.readlink(file) if file.is_symlink() else "" for file in files},
    }


def _checkpoint(content: dict[str, Any]) -> Flat:
    """Names and shapes of a checkpoint's weights, of its optimizer's state in order, and of what callbacks keep."""
    (optimizer,) = content["optimizer_states"]
    return {
        "keys": " ".join(sorted(content)),
        **{f"state_dict {key}": _size(value) for key, value in content["state_dict"].items()},
        **{
            f"optimizer group {index}": f"{group['name']}, {len(group['params'])} parameters"
            for index, group in enumerate(optimizer["param_groups"])
        },
        **{
            f"optimizer state {index} {key}": _size(value)
            for index, state in optimizer["state"].items()
            for key, value in state.items()
        },
        **{f"callback {name}": " ".join(sorted(state)) for name, state in content["callbacks"].items()},
    }


def _size(value: Any) -> str:
    """A tensor's shape; of the objective's extra state, the kind."""
    return "x".join(map(str, value.shape)) or "scalar" if isinstance(value, torch.Tensor) else kind(value)


def _logged_names(folder: Path, results: dict[str, Any]) -> Flat:
    """Where each logged name stands: in the table of the epochs, of the steps, in the history of results.json."""
    (entry,) = results["history"]
    places = {"epochs": _columns(folder / "epochs.csv"), "steps": _columns(folder / "steps.csv"), "history": set(entry)}
    return {
        name: " ".join(place for place, names in places.items() if name in names)
        for name in sorted(set().union(*places.values()))
    }


def _columns(table: Path) -> set[str]:
    with table.open() as stream:
        return set(next(csv.reader(stream)))


def _numbers(results: dict[str, Any]) -> Flat:
    """Loss terms of the epoch to five digits: they tell the same draws, images and steps. Accuracies jump too much."""
    terms = {name: value for name, value in results["loss_terms"].items() if "_acc" not in name}
    return {name: float(f"{value:.5g}") for name, value in terms.items()}


def flatten(value: Any, key: str = "") -> Flat:
    """Write nested containers as one dictionary, ``a.b[0].c``; an empty container stays a value."""
    if isinstance(value, dict) and value:
        items = [(f"{key}.{name}" if key else str(name), item) for name, item in value.items()]
    elif isinstance(value, list) and value:
        items = [(f"{key}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {key: value}
    return {inner: leaf for name, item in items for inner, leaf in flatten(item, name).items()}


def shape(content: Any) -> Flat:
    """Keys and JSON types; of a list, those of the first element."""
    first = {key: leaf for key, leaf in flatten(content).items() if not re.search(r"\[[1-9]", key)}
    # Not every copy of the package or of solo-learn is a checkout.
    return {
        key: "string or null" if re.search(r"(^|\.)(git_commit|versions\.solo-learn)$", key) else kind(leaf)
        for key, leaf in first.items()
    }


def kind(value: Any) -> str:
    """JSON's name for a value's type."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    names = {bool: "boolean", int: "number", float: "number", str: "string", dict: "object", list: "array"}
    return names.get(type(value), "null" if value is None else type(value).__name__)


def _reference(name: str) -> str:
    """The entry to which another one is written as a difference."""
    return "standalone" if name in RUNS else "radialvicreg"


def write(topic: str, entries: dict[str, Flat]) -> None:
    """Write a file of flat dictionaries; one that resembles its reference only by its difference."""
    content: dict[str, Any] = {}
    for name, flat in entries.items():
        like = entries.get(_reference(name), {})
        changed = {key: value for key, value in flat.items() if key not in like or like[key] != value}
        without = [key for key in like if key not in flat]
        smaller = like is not flat and len(changed) + len(without) < len(flat)
        content[name] = {"like": _reference(name), "changed": changed, "without": without} if smaller else flat
    (HERE / f"{topic}.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(topic: str) -> dict[str, Flat]:
    """The flat dictionaries of a file, complete."""
    content: dict[str, Any] = json.loads((HERE / f"{topic}.json").read_text(encoding="utf-8"))
    return {name: _complete(content, flat) for name, flat in content.items()}


def _complete(content: dict[str, Any], flat: Flat) -> Flat:
    if "like" not in flat:
        return flat
    return {key: value for key, value in content[flat["like"]].items() if key not in flat["without"]} | flat["changed"]


def main() -> None:
    """Rewrite every file; needs solo-learn, and this checkout as the package that Python imports."""
    assert Path(cli.__file__).is_relative_to(REPOSITORY), f"{cli.__file__} is not of {REPOSITORY}: set PYTHONPATH"
    with tempfile.TemporaryDirectory() as scratch:
        folders: dict[str, Path] = {}
        for name in RUNS:
            (Path(scratch) / name).mkdir()
            folders[name] = train(name, Path(scratch) / name)
        measured = {name: measure_run(folder) for name, folder in folders.items()}
        for topic in RUN_TOPICS:
            write(topic, {name: topics[topic] for name, topics in measured.items()})
        write("products", {"standalone": measure_products(folders["standalone"])})
    write("configurations", {words: measure_configuration(words) for words in CONFIGURATIONS})
    write("identities", {words: measure_identity(words) for words in IDENTITIES})


if __name__ == "__main__":
    main()
