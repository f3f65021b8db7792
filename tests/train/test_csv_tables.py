"""``epochs.csv`` and ``steps.csv``: one row an epoch, one row a logged step, whatever happened in between."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import read_results

from radial_vicreg.train.callbacks.csv_tables import StepTable


def read(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as stream:
        return list(csv.DictReader(stream))


def log(folder: Path, *steps: int, **more: float) -> None:
    """What a start of a run logs at these steps."""
    table = StepTable(folder)
    for step in steps:
        table.log_metrics({"lr-AdamW": 0.5}, step=step - 1)  # Lightning counts the steps before
        table.log_metrics({"train_loss_step": step / 10, "epoch": 0, **more}, step=step - 1)
        table.save()
    table.finalize("success")


def test_the_epochs_are_those_of_the_results_and_the_untrained_network(finished_run: Callable[[str], Path]) -> None:
    folder = finished_run("standalone")
    results = read_results(folder)
    untrained, *epochs = read(folder / "epochs.csv")
    assert untrained["epoch"] == "0"
    assert untrained["train_loss_epoch"] == ""
    assert float(untrained["radius_eval/w1_chi"]) == results["radii"]["initial"]["eval"]["w1_chi"]
    assert [row["epoch"] for row in epochs] == ["1", "2"]
    for row, entry in zip(epochs, results["history"], strict=True):
        assert float(row["train_loss_epoch"]) == entry["train_loss"]
        assert float(row["val_acc1"]) == entry["val_acc1"]
    assert epochs[0]["radius_batch/w1_chi"] == ""  # not measured then
    assert float(epochs[1]["radius_batch/w1_chi"]) == results["radii"]["final"]["batch"]["w1_chi"]


def test_the_steps_have_a_row_each_with_rates_and_values(finished_run: Callable[[str], Path]) -> None:
    rows = read(finished_run("standalone") / "steps.csv")
    assert [(row["step"], row["epoch"]) for row in rows] == [(str(step), str(1 + step // 4)) for step in range(1, 7)]
    assert all(value for row in rows for value in row.values())
    assert {"train_loss_step", "train_radius_mean_step", "lr-Lars/backbone"} <= rows[0].keys()


@pytest.mark.usefixtures("short_writes")
def test_a_run_that_goes_on_drops_the_steps_that_it_takes_again(tmp_path: Path) -> None:
    log(tmp_path, 1, 2, 3, 4)
    log(tmp_path, 3, 4, 5)
    found = [(row["step"], row["train_loss_step"]) for row in read(tmp_path / "steps.csv")]
    assert found == [("1", "0.1"), ("2", "0.2"), ("3", "0.3"), ("4", "0.4"), ("5", "0.5")]


def test_a_cut_last_line_is_dropped(tmp_path: Path) -> None:
    log(tmp_path, 1, 2)
    table = tmp_path / "steps.csv"
    whole = table.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1])):
        table.write_bytes(whole[:-cut])
        log(tmp_path, 3)
        assert [row["step"] for row in read(table)] == ["1", "3"], cut


def test_a_damaged_table_is_written_anew(tmp_path: Path) -> None:
    for content in (b"", b"step,epo", b"\xff\xfe\n", b"step\nmany\n"):
        (tmp_path / "steps.csv").write_bytes(content)
        log(tmp_path, 1)
        assert [(row["step"], row["train_loss_step"]) for row in read(tmp_path / "steps.csv")] == [("1", "0.1")]


def test_a_damaged_line_is_named_and_costs_no_other(tmp_path: Path) -> None:
    log(tmp_path, 1, 2, 3)
    table = tmp_path / "steps.csv"
    first, second, _, fourth = table.read_text().splitlines()
    for damaged in ("2,1", "2,1,0.5,0.2,3,1,0.5,0.3", '2,"1,0.5,0.2', "\0\0\0", "two,1,0.5,0.2"):
        table.write_text("\n".join([first, second, damaged, fourth, ""]))
        with pytest.warns(UserWarning, match=r"steps\.csv has damaged lines, which are removed: 3$"):
            log(tmp_path, 4)
        assert [row["step"] for row in read(table)] == ["1", "3", "4"], damaged


def test_a_value_that_comes_later_gets_its_column(tmp_path: Path) -> None:
    table = StepTable(tmp_path)
    for step, metrics in enumerate(({"a_step": 1.0}, {"a_step": 2.0, "b_step": 3.0})):
        table.log_metrics(metrics, step=step)
        table.save()
    assert [(row["a_step"], row["b_step"]) for row in read(tmp_path / "steps.csv")] == [("1.0", ""), ("2.0", "3.0")]
