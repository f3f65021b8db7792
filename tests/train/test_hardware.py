"""The effective precision of a run: what a machine chooses, and with what a run resumes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from configs import make_config
from helpers import Pretrain, only_run, pull_the_plug

from radial_vicreg.train import hardware
from radial_vicreg.train.hardware import effective_hardware, precision_as_begun, precision_note
from radial_vicreg.train.same_run import begun_precision


@pytest.fixture
def processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give this machine a processor with the flags."""

    def have(flags: str) -> None:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {flags} sse\n")
        monkeypatch.setattr(hardware, "_CPU_INFO", tmp_path / "cpuinfo")

    return have


@pytest.mark.parametrize(
    ("asked", "flags", "became"),
    [
        ("auto", "amx_bf16 amx_tile", "bf16-mixed"),
        ("auto", "avx512_bf16", "32"),  # its weight gradients are wrong where a kernel is larger than the image
        ("bf16-mixed", "", "bf16-mixed"),
        ("bf16-true", "", "bf16-true"),
        ("16-mixed", "amx_bf16", "32"),
        ("16", "", "32"),
        ("64-true", "", "64-true"),
    ],
)
def test_a_processor_does_what_is_asked_for_and_possible(
    asked: str, flags: str, became: str, processor: Callable[[str], None]
) -> None:
    processor(flags)
    config = make_config(precision=asked, sync_batchnorm=True)
    assert effective_hardware(config) == {"precision": became, "sync_batchnorm": False}


def test_a_system_that_does_not_list_its_processors_has_no_amx(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(hardware, "_CPU_INFO", tmp_path / "absent")
    assert effective_hardware(make_config(precision="auto"))["precision"] == "32"


@pytest.mark.parametrize(
    ("majors", "supported", "became"),
    [
        ([8], True, "bf16-mixed"),
        ([9, 7], True, "16-mixed"),  # emulation counts as supported there
        ([9], False, "16-mixed"),  # ROCm counts otherwise
    ],
)
def test_gpus_take_bfloat16_where_all_of_them_have_it(
    majors: list[int], supported: bool, became: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(majors))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (majors[index], 0))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: supported)
    for asked, expected in (("auto", became), ("16-mixed", "16-mixed")):
        assert effective_hardware(make_config(precision=asked, accelerator="gpu"))["precision"] == expected


def test_what_differs_from_the_request_is_said(processor: Callable[[str], None]) -> None:
    processor("amx_bf16")
    told = {
        "bf16-mixed": None,
        "auto": "precision=auto: bf16-mixed on this machine",
        "16-mixed": "no GPU: training in float32 on the CPU instead of precision=16-mixed",
    }
    assert {asked: precision_note(make_config(precision=asked)) for asked in told} == told


def test_a_run_resumes_in_the_precision_in_which_it_began(
    processor: Callable[[str], None], pretrain: Pretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ["precision=auto", "diagnostics.enabled=false", "+limit_train_batches=1"]
    processor("amx_bf16")
    with monkeypatch.context() as patch:
        pull_the_plug(patch, epochs=1)
        with pytest.raises(ConnectionAbortedError):
            pretrain(*settings)
    run = only_run(tmp_path / "runs")
    copied = shutil.copy(run / "checkpoints" / "epoch-1.ckpt", tmp_path / "copy.ckpt")
    assert begun_precision(Path(copied)) == "bf16-mixed"
    processor("sse")  # another machine
    resumed = pretrain(*settings, "ckpt=auto")
    said = "precision: bf16-mixed, in which this run began; a new run on this machine would take 32-true"
    assert said in resumed.stdout
    results = resumed.results
    assert (results["status"], results["effective"]["precision"]) == ("finished", "bf16-mixed")
    assert results["config"]["precision"] == "auto"
    assert results["loss_terms"]["train_loss"] is not None


@pytest.mark.parametrize(
    ("asked", "begun", "kept"),
    [
        ("auto", "32-true", "32-true"),
        ("auto", "bf16-mixed", None),  # what this machine chooses
        ("auto", "16-mixed", None),  # of a GPU: no CPU trains in it
        ("32", None, None),
        ("bf16-mixed", "bf16-mixed", None),
    ],
)
def test_only_a_precision_that_the_machine_has_and_would_not_choose_is_kept(
    asked: str, begun: str | None, kept: str | None, processor: Callable[[str], None]
) -> None:
    processor("amx_bf16")
    assert precision_as_begun(make_config(precision=asked), begun) == kept
