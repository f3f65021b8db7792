"""What a training prints, timed, and what several trainings gave, as a table."""

from __future__ import annotations

import re
import time
from io import TextIOBase
from typing import Any

from benchmarks.runner import markdown_table


class TimedLines(TextIOBase):
    """Passes text on and notes when each "epoch i/n" line came; at that moment its figures are on the host."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.moments: list[float] = []

    def write(self, text: str) -> int:
        if re.match(r"epoch \d+/\d+ ", text):
            self.moments.append(time.monotonic())
        return int(self.stream.write(text))

    def flush(self) -> None:
        self.stream.flush()


def summary_table(content: dict[str, Any]) -> str:
    """One row a run, and one for every other stage that failed or was skipped."""
    header = [
        "run",
        "epochs",
        "linear, %",
        "W1 to chi",
        "mean norm",
        "radius",
        "its sd",
        "images/s",
        "s/epoch",
        "400 epochs, min",
    ]
    keys = ["epochs", "linear_top1", "w1_chi", "embedding_mean_norm", "radius_mean", "radius_std"]
    keys += ["images_a_second", "seconds_an_epoch", "minutes_for_400_epochs"]
    rows = []
    for name, stage in content["stages"].items():
        result = stage.get("result")
        if isinstance(result, dict) and "linear_top1" in result:
            rows.append([name, *(_number(result[key]) for key in keys)])
        elif "error" in stage or (isinstance(result, dict) and "skipped" in result):
            why = stage.get("error") or f"skipped: {result['skipped']}"
            rows.append([name, why.splitlines()[0][:80], *[""] * (len(header) - 2)])
    return markdown_table(header, rows)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
