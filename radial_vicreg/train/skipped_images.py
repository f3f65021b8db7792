"""Say which images a run leaves out because they cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as pl

from radial_vicreg.data.image import shown

_NAMED = 5


class SkippedImages(pl.Callback):
    """Count the images that ``data.on_bad_image=skip`` has left out, for ``results.json``.

    Args:
        skipped: files left out, for ``"train"`` and ``"val"``.
    """

    def __init__(self, skipped: Mapping[str, Sequence[str]]) -> None:
        self.skipped = skipped

    def results(self) -> dict[str, Any]:
        """Give ``data.skipped_images``: how many of the training images and of the validation images."""
        return {"data": {"skipped_images": {split: len(files) for split, files in self.skipped.items()}}}


def skipped_text(skipped: Mapping[str, Sequence[str]]) -> str:
    """Say in one line how many images of each set were left out, with the first names."""
    parts = []
    for split, files in skipped.items():
        names = ", ".join(shown(file) for file in files[:_NAMED])
        more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
        parts.append(f"{len(files):,} of {split}" + (f" ({names}{more})" if files else ""))
    return f"unreadable images left out: {', '.join(parts)}"
