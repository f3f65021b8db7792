"""What a run and a probe show in a terminal of 60 columns, and in a pipe."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from helpers import Pretrain, composed, only_run, tiny_settings, write_images

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.io import terminal
from radial_vicreg.train.callbacks import console

CONTROL = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
BAR = re.compile(r"(epoch \d+/\d+|\w+ images|linear probe) \S+ (\d+) %(, \d+:\d\d:\d\d left)?")

Show = Callable[..., str]


@contextmanager
def watched(columns: int | None) -> Iterator[tuple[int, list[bytes]]]:
    """The end to write to of a terminal, or of a pipe without a width, and what arrives at the other one."""
    reading, writing = os.pipe() if columns is None else os.openpty()
    if columns is not None:
        fcntl.ioctl(writing, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    arrived: list[bytes] = []

    def collect() -> None:
        try:
            while chunk := os.read(reading, 65536):
                arrived.append(chunk)
        except OSError:  # how Linux ends a pseudo-terminal
            pass

    thread = threading.Thread(target=collect)
    thread.start()
    try:
        yield writing, arrived
    finally:
        os.close(writing)
        thread.join()
        os.close(reading)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = tmp_path_factory.mktemp("console")
    train, val = write_images(root / "train"), write_images(root / "val", per_class=4)
    return [*tiny_settings(train, val, root), "host=standalone"]


@pytest.fixture(scope="module")
def run(settings: list[str], show: Show) -> Path:
    """The folder of the run that was shown in the narrow terminal."""
    show(60)
    (runs_dir,) = [Path(setting.partition("=")[2]) for setting in settings if setting.startswith("runs_dir=")]
    return only_run(runs_dir / "60")


@pytest.fixture(scope="module")
def show(settings: list[str]) -> Show:
    """What a training, or another command, shows: in a terminal of a width, in a pipe without one; once for all."""

    @functools.cache
    def shown(columns: int | None, *command: str) -> str:
        (runs_dir,) = [setting for setting in settings if setting.startswith("runs_dir=")]
        arguments = [*command] or ["pretrain", *settings, f"{runs_dir}/{columns}"]
        with pytest.MonkeyPatch.context() as patch, watched(columns) as (writing, arrived):
            patch.setattr(terminal, "_SECONDS_BETWEEN_FRAMES", 0)
            patch.setattr("radial_vicreg.figures.radius_histograms.save_figure", lambda figure, path: [])
            patch.setenv("TERM", "xterm")
            patch.delenv("NO_COLOR", raising=False)
            if columns is not None:
                patch.setenv("COLUMNS", str(columns))  # the width of this process's own terminal is another
            with (
                open(writing, "w", encoding="utf-8", closefd=False) as stream,
                redirect_stdout(stream),
                redirect_stderr(stream),
            ):
                assert cli.main(arguments) == 0
        return b"".join(arrived).decode()

    return shown


def frames(text: str) -> list[str]:
    """What stood in the lines of the screen, one after the other."""
    return [line for line in re.split(r"[\r\n]+", CONTROL.sub("", text)) if line]


def bars(text: str) -> list[re.Match[str]]:
    return [found for line in frames(text) if (found := BAR.fullmatch(line))]


def test_one_bar_goes_through_the_whole_run_within_the_width_below_the_lines_of_the_epochs(show: Show) -> None:
    text = show(60)
    assert COLOUR.search(text)
    found = bars(text)
    assert max(map(len, frames(text)[3:-1])) <= 60  # not the paths before and after the training
    shares = [int(bar[2]) for bar in found]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 100)
    assert list(dict.fromkeys(bar[1] for bar in found)) == ["epoch 1/2", "epoch 2/2"]
    assert any(bar[3] for bar in found)
    lines = [line for line in frames(text) if not BAR.fullmatch(line)]
    starts = [line.split("  ")[0] for line in lines if line.startswith("epoch")]
    assert starts == ["epoch 1/2", "epoch 2/2"]
    assert lines[-1].startswith("in ")


def test_a_pipe_gets_plain_lines_and_one_an_epoch(show: Show) -> None:
    text = show(None)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert not bars(text)
    assert re.findall(r"^epoch \d/2  loss", text, re.MULTILINE) == ["epoch 1/2  loss", "epoch 2/2  loss"]
    assert text.count("the loss is negative: the radial cross-entropy omits its constant, so its minimum is -160.") == 1
    assert text.index("the loss is negative") < text.index("epoch 1/2  loss")


def test_vicreg_has_no_target_and_no_radial_term(pretrain: Pretrain) -> None:
    done = pretrain("radialvicreg/method=vicreg", "max_epochs=1")
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("epoch 1/1"))
    assert "radius" in line
    assert "W1 to chi in batches" in line
    assert "target" not in line
    assert "radial" not in line
    assert done.results["loss_terms"]["train_radial_loss"] == 0


@pytest.mark.parametrize(
    ("overrides", "said"),
    [([], 1), pytest.param(["method_kwargs.radial_center=true"], 0, marks=pytest.mark.slow)],
)
def test_an_offset_is_named_once(overrides: list[str], said: int, pretrain: Pretrain) -> None:
    """Without variance and covariance, the radial term alone makes one long vector of all images."""
    alone = ["method_kwargs.var_loss_weight=0", "method_kwargs.cov_loss_weight=0", "method_kwargs.sim_loss_weight=1000"]
    more = ["diagnostics.enabled=false", "max_epochs=3", "scheduler.warmup_epochs=0", "optimizer.lr=0.02"]
    done = pretrain(*alone, *more, *overrides)
    assert done.stdout.count("of the mean squared radius is a common offset of all embeddings") == said


@pytest.mark.parametrize("columns", [60, None])
def test_a_probe_has_bars_in_a_terminal_alone(columns: int | None, show: Show, run: Path) -> None:
    text = show(columns, "probe", str(run), "--workers", "0")
    seen = list(dict.fromkeys(bar[1] for bar in bars(text)))
    assert seen == (["train images", "val images", "linear probe"] if columns else [])
    assert text.count("linear probe of") == 1


@pytest.mark.parametrize(
    ("overrides", "lowest"),
    [
        ([], "-522.6"),  # 100 * 511 / 512 * (1 - log 511), two views of half of it
        (["method_kwargs.radial_ce_loss_weight=1", "method_kwargs.radial_ce_normalize=false"], "-2675.8"),
        (["method_kwargs.radial_ce_loss_weight=0"], None),
        (["method_kwargs.proj_output_dim=3"], None),
        (["method=vicreg"], None),
    ],
)
def test_the_sign_is_explained_where_the_loss_gets_negative(overrides: list[str], lowest: str | None) -> None:
    note = console.negative_loss_note(run_config(composed("radialvicreg", *overrides)))
    assert (note or "").count(f"its minimum is {lowest}") == (lowest is not None)
    assert (note is None) == (lowest is None)


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, None])
def test_a_process_shows_nothing_of_what_libraries_say(columns: int | None, settings: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONWARNINGS", "COLUMNS")}
    command = [sys.executable, "-m", "radial_vicreg.cli", "pretrain", *settings, "max_epochs=1"]
    with watched(columns) as (writing, arrived):
        streams: Any = {"stdin": writing, "stdout": writing, "stderr": writing}
        assert subprocess.run(command, env={**environment, "TERM": "xterm"}, **streams).returncode == 0
    text = b"".join(arrived).decode()
    if columns is None:
        ours = "host|run folder|the loss|warning|epoch|finished|waiting|radii|  |online|in "
        assert [line for line in text.splitlines() if not re.match(ours, line)] == []
    for foreign in ("Tip", "litlogger", "GPU available", "deprecated", "warnings.warn", ".py:", "Trainer.fit"):
        assert foreign not in text
    assert [max(len(bar[0]) for bar in bars(text))] == [columns] if columns else not bars(text)
    assert "warning: a warm-up of" in text
