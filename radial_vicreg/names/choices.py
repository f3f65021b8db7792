"""Choices of the command line, which ``--help`` and completion list without PyTorch, NumPy or pydantic."""

from __future__ import annotations

HUB_FORMAT = "hf"
"""The format that is a repository of the Hugging Face Hub."""

EXPORT_FILES = {
    "torchvision": "backbone.pth",
    "timm": "backbone.pth",
    "safetensors": "backbone.safetensors",
    HUB_FORMAT: "model.safetensors",  # the name that timm looks for, on the Hub and in a folder
}
"""File of the weights in each format of ``radial-vicreg export``."""

SELECTIONS = ("paper", "best")
"""What fills a cell of the paper's tables: the experiment nearest to the paper's settings, or the best of a sweep."""

SYNTHETIC_FIGURES = ("1", "3")
"""Figures of the paper that are of synthetic runs."""

SYNTHETIC_PRESETS = ("quick", "full")
"""Sizes of the synthetic figures and sweeps."""

ON_BAD_IMAGE = ("error", "skip")
"""Stop at an image that cannot be read, or leave it out: ``data.on_bad_image``."""
