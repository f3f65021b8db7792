"""Effective precision and BatchNorm on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import torch

from radial_vicreg.config import RunConfig
from radial_vicreg.runs.identity import canonical_precision

_CPU_INFO = Path("/proc/cpuinfo")  # Linux; without this file, AMX counts as absent


class Hardware(TypedDict):
    """Effective values of two configuration keys on a machine, by their names."""

    precision: str
    sync_batchnorm: bool


def effective_hardware(config: RunConfig) -> Hardware:
    """Return the effective precision and BatchNorm on this machine; the configuration keeps the requested ones.

    Args:
        config: configuration with an available accelerator.

    Returns:
        ``precision`` and ``sync_batchnorm``.
    """
    on_cpu = config.accelerator == "cpu"
    precision: str = config.precision
    if precision == "auto":
        precision = _fastest_on_cpu() if on_cpu else _fastest_on_gpu()
    elif on_cpu and precision.startswith("16"):  # slow on a CPU, and its range is small
        precision = "32"
    return {"precision": precision, "sync_batchnorm": config.sync_batchnorm and not on_cpu}  # GPUs only


def precision_as_begun(config: RunConfig, begun: str | None) -> str | None:
    """Return the precision in which a run resumes, if it is not the one that this machine would choose.

    Args:
        config: configuration with an available accelerator.
        begun: effective precision with which the run began; None if it is not known.

    Returns:
        One of Lightning's long names. None if the machine would choose the same, or cannot train in ``begun``.
    """
    if begun is None:
        return None
    chosen, kept = (
        canonical_precision(effective_hardware(config.model_copy(update=changes))["precision"])
        for changes in ({}, {"precision": begun})
    )
    return kept if kept == canonical_precision(begun) != chosen else None


def precision_note(config: RunConfig) -> str | None:
    """Describe the effective precision if it is not the one in the configuration.

    Args:
        config: configuration with an available accelerator.
    """
    asked, became = config.precision, effective_hardware(config)["precision"]
    if asked == became:
        return None
    if asked == "auto":
        return f"precision=auto: {became} on this machine"
    return f"no GPU: training in float32 on the CPU instead of precision={asked}"


def _fastest_on_cpu() -> str:
    """Choose bfloat16 if the processor multiplies its matrices in hardware (AMX), otherwise float32.

    With AVX512_BF16 alone bfloat16 is faster as well, but oneDNN (PyTorch 2.14) leaves entries of a convolution's
    weight gradient unwritten where the kernel is larger than the image: benchmarks/NOTES.md.
    """
    return "bf16-mixed" if _has_amx() else "32"


def _fastest_on_gpu() -> str:
    """Choose bfloat16 if every GPU supports it in hardware, from compute capability 8.0 on."""
    majors = [torch.cuda.get_device_capability(index)[0] for index in range(torch.cuda.device_count())]
    return "bf16-mixed" if torch.cuda.is_bf16_supported() and min(majors) >= 8 else "16-mixed"


def _has_amx() -> bool:
    """Return whether the processor has AMX for bfloat16."""
    try:
        return "amx_bf16" in _CPU_INFO.read_text().split()
    except OSError:
        return False
