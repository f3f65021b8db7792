"""A command that a signal or a full disk ends says so in one line, and leaves nothing half written."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import one_line
from PIL import Image

from radial_vicreg import cli, files
from radial_vicreg.errors import STOP_SIGNALS

EndAt = Callable[[str, Callable[[], object]], None]

#: Every command that writes, with the file at which it is ended. RUN: a finished run's folder; OUT: a new folder.
COMMANDS = {
    "probe RUN --probe knn": "-train.pt",
    "export RUN --format timm": "backbone.pth",
    "export RUN --format safetensors": "backbone.safetensors",
    "diagnose Z --json OUT/z.json": "z.json",
    "report RUN --out OUT": "figures/",
    "synthetic num_samples=40 steps=2 snapshots=1 out=OUT": "snapshots.npz",
    "data digits --out OUT": "0.png",
}


@pytest.fixture
def arguments(finished_run: Callable[[str], Path], tmp_path: Path) -> Callable[[str], list[str]]:
    """Fills in the folders of a command; its run is a copy."""

    def fill(command: str) -> list[str]:
        places: dict[str, str] = {
            "RUN": str(tmp_path / "run"),
            "OUT": str(tmp_path / "out"),
            "Z": str(tmp_path / "z.npy"),
        }
        if "RUN" in command:
            shutil.copytree(finished_run("standalone"), tmp_path / "run", symlinks=True)
        np.save(places["Z"], np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32))
        words = []
        for word in command.split():
            name = next((name for name in places if name in word.replace("=", "/").split("/")), "")
            words.append(word.replace(name, places.get(name, "")))
        return words

    return fill


@pytest.fixture
def end_at(monkeypatch: pytest.MonkeyPatch) -> EndAt:
    """Does something once, in the middle of writing a file whose path holds a word."""

    def install(word: str, action: Callable[[], object]) -> None:
        done: list[str] = []

        class Watched(files._RememberingFile):
            def write(self, content: Any) -> int:
                try:
                    if word in str(self.name) and not done:
                        done.append(str(self.name))
                        io.FileIO.write(self, bytes(content)[: len(content) // 2])
                        action()
                    return super().write(content)
                except BaseException as error:
                    self.problem = error
                    raise

        real = Image.Image.save

        def save(image: Image.Image, path: Any, *more: Any, **options: Any) -> None:
            if word in str(path) and not done:
                done.append(str(path))
                action()
            real(image, path, *more, **options)

        monkeypatch.setattr(files, "_RememberingFile", Watched)
        monkeypatch.setattr(Image.Image, "save", save)

    return install


def half_written(folder: Path) -> list[str]:
    """Files that nobody would remove: of a writer, and of a folder that is prepared beside its place."""
    return [str(path) for path in folder.rglob(".*") if path.name.endswith(".tmp") or path.name.startswith(".out-")]


@pytest.mark.parametrize(("command", "file"), COMMANDS.items())
def test_a_signal_leaves_nothing_half_written(
    command: str,
    file: str,
    arguments: Callable[[str], list[str]],
    end_at: EndAt,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = arguments(command)
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    end_at(file, lambda: os.kill(os.getpid(), signal.SIGTERM))
    capsys.readouterr()
    assert cli.main(words) == 143
    assert capsys.readouterr().err.splitlines()[-1] == f"radial-vicreg {words[0]}: stopped by SIGTERM"
    assert half_written(tmp_path) == []
    assert {number: signal.getsignal(number) for number in STOP_SIGNALS} == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize(("command", "file"), COMMANDS.items())
def test_what_the_file_system_refuses_is_one_line(
    command: str,
    file: str,
    number: int,
    arguments: Callable[[str], list[str]],
    end_at: EndAt,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail() -> None:
        raise OSError(
            number, os.strerror(number), *([str(tmp_path / "out" / "0.png")] * (command.split()[0] == "data"))
        )

    words = arguments(command)
    end_at(file, fail)
    capsys.readouterr()
    assert cli.main(words) == 1
    said = capsys.readouterr().err.splitlines()[-1] + "\n"
    reason = "no space left to write" if number in (errno.ENOSPC, errno.EDQUOT) else os.strerror(number)
    one_line(said, f"radial-vicreg {words[0]}: ", reason, str(tmp_path))
    assert half_written(tmp_path) == []
