"""What this machine makes of the precision and the BatchNorm that were asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import torch

from radial_vicreg.config import RunConfig

_CPU_INFO = Path("/proc/cpuinfo")  # Linux; where it is absent, no processor with AMX is


class Hardware(TypedDict):
    """What a machine makes of two keys of the configuration, by their names."""

    precision: str
    sync_batchnorm: bool


def effective_hardware(config: RunConfig) -> Hardware:
    """Tell what this machine makes of the requested precision and BatchNorm; the configuration keeps the request.

    Args:
        config: with an accelerator that is here.

    Returns:
        ``precision`` and ``sync_batchnorm``.
    """
    on_cpu = config.accelerator == "cpu"
    precision: str = config.precision
    if precision == "auto":
        precision = _fastest_on_cpu() if on_cpu else _fastest_on_gpu()
    elif on_cpu and precision.startswith("16"):  # slow there, and its range is small
        precision = "32"
    return {"precision": precision, "sync_batchnorm": config.sync_batchnorm and not on_cpu}  # PyTorch's is for GPUs


def precision_note(config: RunConfig) -> str | None:
    """Say what became of a precision that is not trained in as it was written.

    Args:
        config: with an accelerator that is here.
    """
    asked, became = config.precision, effective_hardware(config)["precision"]
    if asked == became:
        return None
    if asked == "auto":
        return f"precision=auto: {became} on this machine"
    return f"no GPU: training in float32 on the CPU instead of precision={asked}"


def _fastest_on_cpu() -> str:
    """Choose bfloat16 where the processor multiplies matrices of it (AMX); elsewhere it is slower than float32."""
    return "bf16-mixed" if has_amx() else "32"


def _fastest_on_gpu() -> str:
    """Choose bfloat16 where every GPU has it in hardware, which began with compute capability 8.0."""
    majors = [torch.cuda.get_device_capability(index)[0] for index in range(torch.cuda.device_count())]
    return "bf16-mixed" if torch.cuda.is_bf16_supported() and min(majors) >= 8 else "16-mixed"


def has_amx() -> bool:
    """Tell whether the processor has AMX for bfloat16."""
    try:
        return "amx_bf16" in _CPU_INFO.read_text().split()
    except OSError:
        return False
