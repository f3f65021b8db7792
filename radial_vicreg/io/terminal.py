"""Progress bars on a terminal; a pipe or a log file gets none."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from radial_vicreg.errors import RunStopped

_SECONDS_BETWEEN_FRAMES = 0.2
_WITHOUT_CURSOR = ("dumb", "unknown")  # values of TERM

T = TypeVar("T")


class Bar:
    """A progress bar on standard error with the remaining time; it disappears when it is stopped.

    Text that is printed meanwhile appears above the bar. Nothing is shown if standard error is not a terminal. If
    drawing fails, the bar is removed and the work is not affected.

    The bar has no thread of its own: data-loading processes would inherit that thread in an arbitrary state.

    Args:
        label: text before the bar.
        total: total number of steps.
        done: steps of an earlier start.
    """

    def __init__(self, label: str, total: float, done: float = 0) -> None:
        self._label, self._total, self._done = label, total, done
        self._progress: Progress | None = None
        self._first: tuple[float, float] | None = None  # time of the first step, and the steps done by then
        self._drawn = 0.0

    def start(self) -> None:
        """Show the bar."""
        if not sys.stderr.isatty() or os.environ.get("TERM") in _WITHOUT_CURSOR:
            return
        with self._guarded():
            console = Console(file=sys.stderr, force_terminal=True)
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:.0f} %{task.fields[left]}"),
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # output to a file must reach the file
            )
            self._progress.add_task(self._label, total=self._total, completed=int(self._done), left="")
            self._progress.start()
            console.show_cursor(True)  # a killed process could not restore the cursor
            self._progress.refresh()

    def __enter__(self) -> Bar:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def advance(self, steps: float = 1) -> None:
        """Count steps that were done."""
        self._done += steps
        now = time.monotonic()
        if self._first is None:
            self._first = now, self._done
        if self._progress is None or now - self._drawn < _SECONDS_BETWEEN_FRAMES:
            return
        self._drawn = now
        self._update(completed=self._done, left=self._time_left(now))

    def relabel(self, label: str) -> None:
        """Change the text before the bar."""
        self._update(description=label)

    def stop(self) -> None:
        """Remove the bar."""
        with self._guarded():
            progress, self._progress = self._progress, None
            if progress is not None:
                progress.stop()

    def _update(self, **changes: object) -> None:
        with self._guarded():
            if self._progress is not None:
                self._progress.update(self._progress.task_ids[0], refresh=True, **changes)  # type: ignore[arg-type]

    def _time_left(self, now: float) -> str:
        """Extrapolate from the mean speed since the first step; Rich forgets steps older than 30 seconds."""
        assert self._first is not None
        began, done = self._first
        if self._done == done:
            return ""
        seconds = (now - began) / (self._done - done) * (self._total - self._done)
        return f", {timedelta(seconds=round(seconds))} left"

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except RunStopped:  # a signal arrived while the bar was drawn
            raise
        except Exception:  # the terminal is gone, an encoding is odd, anything
            progress, self._progress = self._progress, None
            with suppress(Exception):
                if progress is not None:
                    progress.stop()


def track(items: Iterable[T], label: str, total: float) -> Iterator[T]:
    """Show a bar while ``items`` are iterated.

    Args:
        items: the items to iterate.
        label: text before the bar.
        total: number of the items.

    Yields:
        The items.
    """
    with Bar(label, total) as bar:
        for item in items:
            yield item
            bar.advance()
