"""Choices of the command line, which ``--help`` and completion list without PyTorch, NumPy or pydantic."""

from __future__ import annotations

HUB_FORMAT = "hf"
"""Export format for a repository of the Hugging Face Hub."""

EXPORT_FILES = {
    "torchvision": "backbone.pth",
    "timm": "backbone.pth",
    "safetensors": "backbone.safetensors",
    HUB_FORMAT: "model.safetensors",  # the name that timm looks for, on the Hub and in a folder
}
"""Name of the weights' file in each format of ``radial-vicreg export``."""

EXPORT_CARD = "card.json"
"""File in a folder of ``radial-vicreg export`` that describes the weights next to it."""

SELECTIONS = ("paper", "best")
"""Experiment in a cell of the paper's tables: the nearest to the paper's settings, or the best of a sweep."""

SYNTHETIC_FIGURES = ("1", "3")
"""Figures of the paper that show synthetic runs."""

SYNTHETIC_PRESETS = ("quick", "full")
"""Sizes of the synthetic figures and sweeps."""

ON_BAD_IMAGE = ("error", "skip")
"""Values of ``data.on_bad_image``: stop at an unreadable image, or skip it."""
