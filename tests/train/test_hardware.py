"""The effective precision of a run: what a machine chooses, and with what a run resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import composed, only_run, pull_the_plug, read_results

from radial_vicreg import cli
from radial_vicreg.compose import run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.train import hardware
from radial_vicreg.train.hardware import effective_hardware, precision_as_begun, precision_note
from radial_vicreg.train.same_run import begun_precision

MakeConfig = Callable[..., RunConfig]


@pytest.fixture
def processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give this machine a processor with the flags."""

    def have(flags: str) -> None:
        (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {flags} sse\n")
        monkeypatch.setattr(hardware, "_CPU_INFO", tmp_path / "cpuinfo")

    return have


@pytest.fixture
def make_config() -> MakeConfig:
    def make(precision: str, accelerator: str = "cpu", **changes: object) -> RunConfig:
        config = run_config(composed("radialvicreg"))
        return config.model_copy(update={"precision": precision, "accelerator": accelerator, **changes})

    return make


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
    asked: str, flags: str, became: str, processor: Callable[[str], None], make_config: MakeConfig
) -> None:
    processor(flags)
    assert effective_hardware(make_config(asked, sync_batchnorm=True)) == {
        "precision": became,
        "sync_batchnorm": False,
    }


def test_a_system_that_does_not_list_its_processors_has_no_amx(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, make_config: MakeConfig
) -> None:
    monkeypatch.setattr(hardware, "_CPU_INFO", tmp_path / "absent")
    assert effective_hardware(make_config("auto"))["precision"] == "32"


@pytest.mark.parametrize(
    ("majors", "became"), [([8], "bf16-mixed"), ([9, 9], "bf16-mixed"), ([7], "16-mixed"), ([9, 7], "16-mixed")]
)
def test_gpus_take_bfloat16_where_all_of_them_have_it(
    majors: list[int], became: str, monkeypatch: pytest.MonkeyPatch, make_config: MakeConfig
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(majors))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (majors[index], 0))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)  # emulation counts there
    assert effective_hardware(make_config("auto", "gpu"))["precision"] == became
    assert effective_hardware(make_config("16-mixed", "gpu"))["precision"] == "16-mixed"


def test_a_gpu_whose_build_of_pytorch_has_no_bfloat16_takes_float16(
    monkeypatch: pytest.MonkeyPatch, make_config: MakeConfig
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 4))  # ROCm counts otherwise
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert effective_hardware(make_config("auto", "gpu"))["precision"] == "16-mixed"


def test_what_differs_from_the_request_is_said(processor: Callable[[str], None], make_config: MakeConfig) -> None:
    processor("amx_bf16")
    assert precision_note(make_config("bf16-mixed")) is None
    assert precision_note(make_config("auto")) == "precision=auto: bf16-mixed on this machine"
    told = "no GPU: training in float32 on the CPU instead of precision=16-mixed"
    assert precision_note(make_config("16-mixed")) == told


def test_results_keep_the_request_and_say_what_ran(
    processor: Callable[[str], None], tiny_overrides: list[str], tmp_path: Path
) -> None:
    processor("amx_bf16")
    settings = [*tiny_overrides, "host=standalone", "precision=auto", "max_epochs=1", "diagnostics.enabled=false"]
    assert cli.main(["pretrain", *settings]) == 0
    results = read_results(only_run(tmp_path / "runs"))
    assert results["config"]["precision"] == "auto"
    assert results["effective"]["precision"] == "bf16-mixed"
    assert results["loss_terms"]["train_loss"] is not None


def test_a_run_resumes_in_the_precision_in_which_it_began(
    processor: Callable[[str], None],
    tiny_overrides: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = [*tiny_overrides, "host=standalone", "precision=auto", "max_epochs=2", "diagnostics.enabled=false"]
    processor("amx_bf16")
    with monkeypatch.context() as patch:
        pull_the_plug(patch, epochs=1)
        with pytest.raises(ConnectionAbortedError):
            cli.main(["pretrain", *settings])
    processor("sse")  # another machine
    assert cli.main(["pretrain", *settings, "ckpt=auto"]) == 0
    said = "precision: bf16-mixed, in which this run began; a new run on this machine would take 32-true"
    assert said in capsys.readouterr().out
    results = read_results(only_run(tmp_path / "runs"))
    assert (results["status"], results["effective"]["precision"]) == ("finished", "bf16-mixed")


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
    asked: str, begun: str | None, kept: str | None, processor: Callable[[str], None], make_config: MakeConfig
) -> None:
    processor("amx_bf16")
    assert precision_as_begun(make_config(asked), begun) == kept


def test_a_copied_checkpoint_says_its_precision(
    processor: Callable[[str], None], tiny_overrides: list[str], tmp_path: Path
) -> None:
    processor("amx_bf16")
    settings = [*tiny_overrides, "host=standalone", "precision=auto", "max_epochs=1", "diagnostics.enabled=false"]
    assert cli.main(["pretrain", *settings]) == 0
    (checkpoint,) = only_run(tmp_path / "runs").glob("checkpoints/epoch*.ckpt")
    copy = tmp_path / "copy.ckpt"
    copy.write_bytes(checkpoint.read_bytes())
    assert begun_precision(copy) == begun_precision(checkpoint) == "bf16-mixed"
