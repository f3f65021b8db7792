"""What tests of several folders do with runs: how they are made small, found, read, compared and left behind."""

from __future__ import annotations

import ast
import copy
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from PIL import Image

import radial_vicreg
from radial_vicreg import cli
from radial_vicreg.compose import compose, run_config
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import write_json
from radial_vicreg.nets.models import build_encoder
from radial_vicreg.runs.checkpoints import find_checkpoint
from radial_vicreg.runs.provenance import describe_run
from radial_vicreg.solo.detect import find_solo_learn

#: What most tests train: a ViT of four tokens, with small checkpoints. solo-learn needs :func:`make_solo_vit_small`.
TINY_VIT = [
    "backbone.name=vit_tiny",
    "+backbone.kwargs={patch_size:16,img_size:32,dynamic_img_size:true,depth:1,embed_dim:24,num_heads:1}",
]

#: After those: the ResNet-18 of the tables, for a test that is about it.
RESNET = ["backbone.name=resnet18", "~backbone.kwargs"]
SMALL_STEM = [*RESNET, "method_kwargs.small_image_stem=true"]

HOSTS = ["standalone", pytest.param("solo", marks=pytest.mark.solo)]
#: For what both hosts do with the same code: the second one only with ``--slow``.
HOSTS_SOLO_SLOW = ["standalone", pytest.param("solo", marks=[pytest.mark.solo, pytest.mark.slow])]

#: What differs between a run and the same run interrupted: times, and paths (``config_hash`` is compared).
OWN = ("seconds", "started", "config", "cost")


#: What Lightning's launcher sets in the environment of the first process, for those that it starts.
LAUNCHED = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "LOCAL_RANK", "WORLD_SIZE")

TESTS = Path(__file__).parent


def first_on_path(folder: Path) -> str:
    """A PYTHONPATH with that folder before whatever leads to the package under test."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def write_images(root: Path, classes: int = 3, per_class: int = 8, size: int = 32) -> Path:
    """Write ``root/CLASS/N.png``: noise whose colour is the class, so that a network can learn it."""
    rng = np.random.default_rng(0)
    for label in range(classes):
        folder = root / f"class_{label}"
        folder.mkdir(parents=True)
        for index in range(per_class):
            pixels = rng.integers(0, 128, (size, size, 3), dtype=np.uint8)
            pixels[..., label % 3] += 100
            Image.fromarray(pixels).save(folder / f"{index}.png")
    return root


def tiny_settings(train: Path, val: Path, root: Path) -> list[str]:
    """Overrides for three steps an epoch on 24 small images and a very small network; runs go below ``root``."""
    return [
        "radialvicreg/dataset=folder",
        f"data.train_path={train}",
        f"data.val_path={val}",
        "data.num_workers=0",
        *TINY_VIT,
        "method_kwargs.proj_hidden_dim=16",
        "method_kwargs.proj_output_dim=16",
        "optimizer.batch_size=8",
        "max_epochs=2",
        "scheduler.warmup_epochs=1",
        "accelerator=cpu",
        "strategy=auto",
        "precision=32",
        f"runs_dir={root / 'runs'}",
    ]


def make_solo_vit_small(patch: pytest.MonkeyPatch) -> None:
    """Let solo-learn's ``vit_tiny``, whose sizes are fixed, take those of ``backbone.kwargs``."""
    import timm
    from solo.methods.base import BaseMethod

    def small_vit(method: str, **sizes: Any) -> torch.nn.Module:
        return timm.create_model("vit_tiny_patch16_224", num_classes=0, **sizes)

    patch.setitem(BaseMethod._BACKBONES, "vit_tiny", small_vit)


@functools.cache
def _composed(name: str, *overrides: str) -> DictConfig:
    return compose(name, overrides)


def composed(name: str, *overrides: str) -> DictConfig:
    """A composed configuration, to be changed at will: Hydra takes a quarter of a second, a copy nothing.

    Hydra composes once for each choice of groups and added keys; values of other keys are set in the copy.
    """
    added = {item.lstrip("+~").partition("=")[0] for item in overrides if item.startswith(("+", "~"))}
    set_later = [item for item in overrides if re.match(r"[\w.]+=", item) and item.partition("=")[0] not in added]
    others = [item for item in overrides if item not in set_later]
    needed = [f"{key}=folder" for key in ("data.train_path", "data.val_path") if any(key in item for item in set_later)]
    try:
        cfg = copy.deepcopy(_composed(name, *others, *needed))
        for override in OverridesParser.create().parse_overrides(set_later):
            OmegaConf.update(cfg, override.key_or_group, override.value())
    except (UserError, OmegaConfBaseException):  # a group that needs a value, or an override that is wrong
        return copy.deepcopy(_composed(name, *overrides))
    return cfg


def write_finished_run(folder: Path, cfg: DictConfig, **content: Any) -> Path:
    """Leave what a finished run leaves, without the training: random weights, and results with further content."""
    config: Any = OmegaConf.to_container(cfg, resolve=True)
    results = {**describe_run(config, "standalone"), "status": "finished", "epochs": 1, "probes": {}, **content}
    write_json(folder / "results.json", results)
    write_checkpoint(folder / "checkpoints" / "last.ckpt", cfg, results["epochs"])
    return folder


def write_checkpoint(path: Path, cfg: DictConfig, epochs: int = 1, **more: Any) -> Path:
    """A checkpoint with random weights of a configuration's network, and other entries of its ``state_dict``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"state_dict": {**build_encoder(run_config(cfg)).state_dict(), **more}, "epoch": epochs - 1}, path)
    return path


def only_run(runs: Path) -> Path:
    """The folder of the one run below ``runs``."""
    (results,) = runs.glob("*/*/results.json")
    return results.parent


def read_results(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return content


def results_of(folder: Path) -> dict[str, Any]:
    """Results without what is a run's own: times, paths, and the checkpoint's name, which solo-learn numbers."""
    found = {key: value for key, value in read_results(folder).items() if key not in OWN}
    if saved := found.get("checkpoint"):
        found["checkpoint"] = {key: value for key, value in saved.items() if key != "name"}
    return found


def checkpoint_of(folder: Path) -> dict[str, Any]:
    # weights_only: a checkpoint of ours must load without running code
    content: dict[str, Any] = torch.load(find_checkpoint(folder), weights_only=True)
    return content


def weights_of(folder: Path) -> dict[str, Any]:
    weights: dict[str, Any] = checkpoint_of(folder)["state_dict"]
    return weights


def assert_same_run(found: Path, expected: Path) -> None:
    """Weights, optimizer, schedule, every callback's state (the probes'), results and tables, bit for bit."""
    first, second = checkpoint_of(found), checkpoint_of(expected)
    for key in ("state_dict", "optimizer_states", "lr_schedulers", "epoch", "global_step", "callbacks"):
        assert_equal(without_own(first[key]), without_own(second[key]), key)
    assert_equal(results_of(found), results_of(expected), "results.json")
    for table in expected.glob("*.csv"):  # solo-learn's script leaves none
        assert_equal((found / table.name).read_text().splitlines(), table.read_text().splitlines(), table.name)


def without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_own(item) for key, item in value.items() if key not in OWN}
    return value


def assert_equal(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected), where
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key, value in expected.items():
            assert_equal(found[key], value, f"{where}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), where
        for index, value in enumerate(expected):
            assert_equal(found[index], value, f"{where}.{index}")
    else:
        assert found == expected, where


class AtStep(pl.Callback):
    """Does something once, after so many training steps."""

    def __init__(self, step: int, action: Any) -> None:
        self.step, self.action, self.done = step, action, False

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step and not self.done:
            self.done = True
            self.action()


def pull_the_plug(patch: pytest.MonkeyPatch, epochs: int) -> None:
    """Let every training die, with an error that nobody expects, after so many epochs."""
    import radial_vicreg.train.run as train

    class PulledPlug(pl.Callback):
        def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            if trainer.current_epoch == epochs:
                raise ConnectionAbortedError("pulled")

    real = train.build_trainer

    def with_plug(*arguments: Any, **keywords: Any) -> pl.Trainer:
        trainer = real(*arguments, **keywords)
        trainer.callbacks.append(PulledPlug())  # type: ignore[attr-defined]
        return trainer

    patch.setattr(train, "build_trainer", with_plug)


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def started(command: Sequence[str], cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
    """A command in a group of processes of its own, with one thread each and pipes for what it prints."""
    own = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONFAULTHANDLER": "1"}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=cwd, env={**os.environ, **own, **environment}, start_new_session=True, **pipes)


def finished(process: subprocess.Popen[str], timeout: float = 300) -> subprocess.CompletedProcess[str]:
    """What a process of :func:`started` printed; one that does not end fails the test with the stacks of its group."""
    try:
        said = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)  # at which Python prints where each thread is
        output, stacks = process.communicate()
        pytest.fail(f"not at its end after {timeout:g} s: {process.args}\n{output}\n{stacks}")
    return subprocess.CompletedProcess(process.args, process.returncode, *said)


def on_two_nodes(command: Sequence[str], cwd: Path, timeout: float = 300) -> list[subprocess.CompletedProcess[str]]:
    """Start Python twice, as on two machines of one process each, and return what both printed."""
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    nodes = [started([sys.executable, *command], cwd, NODE_RANK=str(rank), **environment) for rank in range(2)]
    try:
        return [finished(node, timeout) for node in nodes]
    finally:
        for node in nodes:
            node.kill()
            node.wait()


class Typed(NamedTuple):
    """A command line that has ended, in its folder; of ``radial-vicreg pretrain``, in that of its runs."""

    folder: Path
    returncode: int
    stdout: str
    stderr: str

    @property
    def run(self) -> Path:
        """The folder of the one run."""
        return only_run(self.folder)

    @property
    def results(self) -> dict[str, Any]:
        return read_results(self.run)


Pretrain = Callable[..., Typed]
"""What :func:`pretrainer` returns."""


def pretrainer(settings: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Pretrain:
    """Type ``radial-vicreg pretrain`` on the standalone host with these and more overrides.

    Returns:
        A function of the overrides; the command must end with its ``status``, 0 where it is not given.
    """

    def pretrain(*overrides: str, status: int = 0) -> Typed:
        given = [*settings, "host=standalone", *overrides]
        runs = [item.partition("=")[2] for item in given if item.startswith("runs_dir=")]
        capsys.readouterr()
        ended = cli.main(["pretrain", *given])
        said = capsys.readouterr()
        assert ended == status, said.err
        return Typed(Path(runs[-1]), ended, *said)

    return pretrain


def type_rows(rows: Sequence[Sequence[str]], folder: Path, timeout: float = 1500) -> list[Typed]:
    """Type ``main_pretrain.py`` and the arguments of each row in ``folder/N``, in forks of one process.

    The folder of a row may be there before.
    """
    script = find_solo_learn().location.parent / "main_pretrain.py"  # type: ignore[union-attr]
    places = [folder / str(number) for number in range(len(rows))]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    (folder / "rows.json").write_text(json.dumps(list(map(list, rows))))
    typist = [sys.executable, str(TESTS / "solo_host" / "type_rows.py"), str(script)]
    # W&B keeps the folder in which it is imported, and leaves one of its own there.
    process = started([*typist, str(folder / "rows.json"), str(folder)], folder, PYTHONWARNINGS="default")
    done = finished(process, timeout)
    assert done.returncode == 0, done.stderr[-2000:]
    read = [[(place / name).read_text() for name in ("status", "out", "err")] for place in places]
    return [Typed(place, int(status), *said) for place, (status, *said) in zip(places, read, strict=True)]


def one_line(error: str, *words: str) -> None:
    """Assert that an error is one line and holds the words."""
    assert error.count("\n") == 1, error
    for word in words:
        assert word in error


def words_in_texts(words: Iterable[str]) -> dict[str, set[str]]:
    """Which of some words the strings of each module of the package hold, documentation not counted."""
    package = Path(radial_vicreg.__file__).parent
    choices = "|".join(re.escape(text) for text in sorted(words, key=len, reverse=True))
    word = re.compile(rf"(?<![\w-])(?:{choices})(?![\w-])")
    found: dict[str, set[str]] = {}
    for file in package.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(source))) if word.search(source) else []
        documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        strings = (node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        if there := {text for node in strings if id(node) not in documentation for text in word.findall(node.value)}:
            found[file.relative_to(package).as_posix()] = there
    return found


def without(overrides: Sequence[str], *keys: str) -> list[str]:
    """The overrides without those of some keys."""
    return [item for item in overrides if item.partition("=")[0].lstrip("+") not in keys]


def with_resnet(overrides: Sequence[str]) -> list[str]:
    """The overrides with the tables' ResNet-18, for processes in which nothing is patched."""
    return without(overrides, "backbone.name", "backbone.kwargs")


#: Mounts a file system on the folder ``$mount`` in a namespace of its own, runs ``$work`` and removes it again.
_ON_A_MOUNT = """
cleanup() { umount "$mount" 2>/dev/null; [ -z "$loop" ] || losetup -d "$loop"; }
trap cleanup EXIT
eval "$make" || exit 77
eval "$work"
"""


#: Runs the lines of ``$commands`` in one process, since importing PyTorch takes longer than most of them; exit statuses
#: are added to the file ``statuses``, what they print to ``said``. A line after ``!`` is the shell's.
RUN_COMMANDS = """
"$python" - <<'END' >>said
import os, shlex, subprocess
from radial_vicreg import cli
for line in os.environ["commands"].strip().splitlines():
    if line.startswith("!"):
        subprocess.run(line[1:], shell=True, check=True)
        continue
    with open(os.environ["folder"] + "/statuses", "a") as stream:
        print(cli.main(shlex.split(os.path.expandvars(line))), file=stream)
END
"""


def on_a_mount(make: str, work: str, folder: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run shell commands while a file system is mounted that nobody else sees; skip where none may be.

    ``make`` mounts it on ``$mount``, below ``folder``, and may leave a loop device in ``$loop``; ``work`` runs then.
    """
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    (folder / "mount").mkdir()
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "make": make, "work": work, "loop": ""}
    environment |= {"mount": str(folder / "mount"), "folder": str(folder), "python": sys.executable}
    environment |= {name: str(value) for name, value in variables.items()}
    environment["PATH"] += ":/usr/sbin:/sbin"
    shell = [*namespace, "bash", "-c", _ON_A_MOUNT]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip(f"no such file system can be mounted here: {' '.join(done.stderr.split())[-300:]}")
    return done
