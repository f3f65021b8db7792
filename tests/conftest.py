"""Fixtures and options that every test may use."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from helpers import (
    LAUNCHED,
    Pretrain,
    finished,
    make_solo_vit_small,
    only_run,
    pretrainer,
    read_results,
    started,
    tiny_settings,
    write_checkpoint,
    write_images,
)
from hypothesis import settings
from omegaconf import OmegaConf
from PIL import Image

settings.register_profile("fast", max_examples=15, deadline=None)
settings.register_profile("slow", max_examples=50, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests that take more than a few seconds")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("slow" if config.getoption("--slow") else "fast")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    no_slow = pytest.mark.skip(reason="slow: run with --slow")
    no_solo = pytest.mark.skip(reason="solo-learn is not installed: bash/install_solo_learn.sh")
    no_gpu = pytest.mark.skip(reason="needs a GPU")
    for item in items:
        if "slow" in item.keywords and not config.getoption("--slow"):
            item.add_marker(no_slow)
        if "solo" in item.keywords and not _solo_installed():
            item.add_marker(no_solo)
        if "gpu" in item.keywords and not torch.cuda.is_available():
            item.add_marker(no_gpu)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line on solo-learn: how many of its tests ran, or why they did not."""
    reports = [
        report
        for outcome in ("passed", "failed", "skipped", "error")
        for report in terminalreporter.stats.get(outcome, [])
        if "solo" in getattr(report, "keywords", {})
    ]
    # A passed or failed test has one report of its call; a skipped one has only its set-up's.
    skipped = sum(report.outcome == "skipped" for report in reports)
    why = "" if _solo_installed() else "; solo-learn is not installed: bash/install_solo_learn.sh"
    terminalreporter.write_line(f"solo-learn tests: {len(reports) - skipped} ran, {skipped} skipped{why}")


def _solo_installed() -> bool:
    return importlib.util.find_spec("solo") is not None


@pytest.fixture(autouse=True, scope="session")
def _own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep away from the user's caches, in subprocesses as well: a damaged list of fonts makes matplotlib warn."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RADIAL_VICREG_CACHE", "MPLCONFIGDIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _short_wait_for_failed_workers() -> Iterator[None]:
    """PyTorch gives a loader's process that has raised an error five seconds to end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 0.2)
        yield


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def short_writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lets ``os.write`` take a part of what it is given, as a system may; the lengths that were asked for."""
    real, asked = os.write, []

    def write(descriptor: int, content: bytes) -> int:
        asked.append(len(content))
        return real(descriptor, content[: len(content) // 2 + 1])

    monkeypatch.setattr(os, "write", write)
    return asked


@pytest.fixture
def image_folder(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder of :func:`helpers.write_images` by name."""

    def make(name: str = "train", **counts: int) -> Path:
        return write_images(tmp_path / name, **counts)

    return make


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """Writes an image folder: keyword arguments are classes, values their numbers of PNG images."""

    def make(name: str = "images", **counts: int) -> Path:
        rng = np.random.default_rng(0)
        root = tmp_path / name
        root.mkdir()
        for class_name, count in counts.items():
            (root / class_name).mkdir()
            for index in range(count):
                pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / class_name / f"{index}.png")
        return root

    return make


@pytest.fixture
def tiny_overrides(
    image_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> list[str]:
    """Overrides of a run of a second: :func:`helpers.tiny_settings`; its figure of the radii is not drawn."""
    monkeypatch.setattr(
        "radial_vicreg.figures.radius_histograms.save_figure", lambda figure, path: []
    )  # half of the second
    if request.node.get_closest_marker("solo") is not None:
        make_solo_vit_small(monkeypatch)
    return tiny_settings(image_folder("train"), image_folder("val", per_class=4), tmp_path)


@pytest.fixture
def pretrain(tiny_overrides: list[str], capsys: pytest.CaptureFixture[str]) -> Pretrain:
    """:func:`helpers.pretrainer` with a run of a second."""
    return pretrainer(tiny_overrides, capsys)


@pytest.fixture
def add_callback(monkeypatch: pytest.MonkeyPatch) -> Callable[[pl.Callback], None]:
    """Adds a callback to every trainer that ``radial-vicreg pretrain`` builds from now on."""
    from radial_vicreg.train import run as train

    real = train.build_trainer

    def add(callback: pl.Callback) -> None:
        def build(*arguments: Any, **keywords: Any) -> pl.Trainer:
            trainer = real(*arguments, **keywords)
            trainer.callbacks.insert(0, callback)  # type: ignore[attr-defined]
            return trainer

        monkeypatch.setattr(train, "build_trainer", build)

    return add


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A run of a host that was trained to its end, once for all tests: to be read, or copied and then changed."""
    from radial_vicreg import cli

    @functools.cache
    def train(host: str) -> Path:
        root = tmp_path_factory.mktemp(host)
        train, val = write_images(root / "train"), write_images(root / "val", per_class=4)
        more = [f"host={host}", "probes.frozen_linear=true", "log_every_n_steps=1"]
        with pytest.MonkeyPatch.context() as patch:
            if host == "solo":
                make_solo_vit_small(patch)
            assert cli.main(["pretrain", *tiny_settings(train, val, root), *more]) == 0
        return only_run(root / "runs")

    return train


@pytest.fixture
def make_older_weights() -> Callable[[Path], Path]:
    """Leaves a run, made by :func:`helpers.write_finished_run`, with the weights of the epoch before its figures'."""

    def make(folder: Path) -> Path:
        results = read_results(folder)
        checkpoints = folder / "checkpoints"
        older = write_checkpoint(checkpoints / "epoch-1.ckpt", OmegaConf.create(results["config"]), 1)
        (checkpoints / "last.ckpt").unlink(missing_ok=True)
        (checkpoints / "last.ckpt").symlink_to(older.name)
        assert results["epochs"] == 2
        return older

    return make


@pytest.fixture(autouse=True)
def _no_launch_left_behind() -> Iterator[None]:
    """With what Lightning sets when it starts processes, a later test would wait for processes that nobody starts."""
    before = {name: os.environ.get(name) for name in LAUNCHED}
    yield
    left = {name: os.environ.pop(name, None) for name in LAUNCHED if os.environ.get(name) != before[name]}
    os.environ.update({name: value for name, value in before.items() if name in left and value is not None})
    assert not left, "this test leaves what Lightning's launcher has set: restore the environment"


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python in a process and a folder of its own and returns what it printed."""

    def run(
        *arguments: str, cwd: Path | None = None, timeout: float = 300, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return finished(started([sys.executable, *arguments], cwd or tmp_path, **environment), timeout)

    return run
