"""Progress bars: on a terminal alone, within its width, and never in the way of the work."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.progress import Progress

from radial_vicreg.errors import RunStopped
from radial_vicreg.io import terminal
from radial_vicreg.io.terminal import Bar, track

CONTROL = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def test_every_progress_bar_is_of_one_module() -> None:
    """A bar from elsewhere would appear in log files, or end the work when the terminal is gone."""
    source = Path(terminal.__file__).parents[1]
    users = {str(file.relative_to(source)) for file in source.rglob("*.py") if "rich.progress" in file.read_text()}
    assert users == {"io/terminal.py"}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    @property
    def frames(self) -> list[str]:
        """What stood in each line, one after the other."""
        pieces = re.split(r"[\r\n]+", CONTROL.sub("", self.getvalue()))
        return [piece for piece in pieces if piece]


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error is a terminal of 60 columns, standard output a file, and every step is drawn."""
    found = Terminal()
    # Not sys itself: pytest puts its own streams back between this fixture and the test.
    monkeypatch.setattr(terminal, "sys", SimpleNamespace(stderr=found, stdout=io.StringIO()))
    monkeypatch.setattr(terminal, "_SECONDS_BETWEEN_FRAMES", 0)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "60")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def test_a_bar_fills_the_width_and_gives_the_cursor_back_before_the_work_starts(screen: Terminal) -> None:
    bar = Bar("epoch 388/400", 156_000, done=150_000)
    bar.start()
    shown = screen.getvalue()
    assert shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l")  # kill -9 would leave a terminal without one
    bar.advance()
    bar.advance()
    bar.stop()
    assert {len(frame) for frame in screen.frames} == {60}
    assert re.fullmatch(r"epoch 388/400 \S+ 96 %, \d+:\d\d:\d\d left", screen.frames[-1])


def test_the_time_left_is_that_of_the_mean_speed(screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0, 130.0, 400.0])
    bar = Bar("fit", 10)
    bar.start()
    monkeypatch.setattr(terminal.time, "monotonic", lambda: next(clock))
    for _ in range(4):
        bar.advance()
    left = [match[0] for frame in screen.frames if (match := re.search(r"[\d:]+ left", frame))]
    bar.stop()
    assert left == ["0:01:20 left", "0:01:45 left", "0:10:00 left"]  # 10, 15 and 100 s a step for 8, 7 and 6 steps


def test_what_is_printed_to_a_file_meanwhile_arrives_there(
    screen: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    for item in track("ab", "fit", 2):
        print(item)
    assert capsys.readouterr().out == "a\nb\n"


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_without_a_cursor_gets_no_bar(name: str, screen: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", name)
    assert list(track("ab", "fit", 2)) == ["a", "b"]
    assert screen.getvalue() == ""


def test_a_pipe_gets_no_bar_even_where_colour_is_forced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(track("ab", "fit", 2)) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("method", ["start", "update", "stop"])
def test_a_bar_that_cannot_be_drawn_leaves_the_work_alone(
    method: str, screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("the terminal is gone")

    monkeypatch.setattr(Progress, method, broken)
    assert list(track("abc", "fit", 3)) == ["a", "b", "c"]


def test_a_signal_that_comes_while_a_bar_is_drawn_stops_the_work(
    screen: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise RunStopped("stopped by SIGTERM")

    bar = Bar("sweep", 3)
    bar.start()
    monkeypatch.setattr(Progress, "update", interrupted)  # what the handler of a sweep's worker raises
    with pytest.raises(RunStopped):
        bar.relabel("sweep [1]")
    bar.stop()
