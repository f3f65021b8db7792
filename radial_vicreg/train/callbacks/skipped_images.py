"""Report images that a run skips because they cannot be read, and the number of files of a type that is not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lightning.pytorch as pl

from radial_vicreg.data.image import shown
from radial_vicreg.names.counts import first_of


class SkippedImages(pl.Callback):
    """Count the files that are not trained on, for ``results.json``.

    Args:
        skipped: images that ``data.on_bad_image=skip`` has skipped, for ``"train"`` and ``"val"``.
        omitted: numbers of files whose type is not read, by extension, for ``"train"`` and ``"val"``.
    """

    def __init__(self, skipped: Mapping[str, Sequence[str]], omitted: Mapping[str, Mapping[str, int]]) -> None:
        self.skipped, self.omitted = skipped, omitted

    def results(self) -> dict[str, object]:
        """Return ``data.skipped_images`` and ``data.omitted_files``, as far as there are any."""
        notes: dict[str, object] = {}
        if self.skipped:
            notes["skipped_images"] = {split: len(files) for split, files in self.skipped.items()}
        if self.omitted:
            notes["omitted_files"] = self.omitted
        return {"data": notes}


def skipped_text(skipped: Mapping[str, Sequence[str]]) -> str:
    """Describe in one line how many images of each set were skipped, with the first names."""
    parts = []
    for split, files in skipped.items():
        names = f" ({first_of([shown(file) for file in files])})" if files else ""
        parts.append(f"{len(files):,} of {split}{names}")
    return f"unreadable images skipped: {', '.join(parts)}"
