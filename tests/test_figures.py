"""Figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from radial_vicreg.figures import draw_radii


@pytest.mark.parametrize("radii", [torch.rand(50) + 3, torch.full((50,), 2.0)], ids=["spread", "all equal"])
def test_radii_are_drawn_as_png_and_pdf(tmp_path: Path, radii: torch.Tensor) -> None:
    files = draw_radii([("before", radii), ("after", torch.randn(50, 16).norm(dim=1))], 16, tmp_path / "radii")
    assert [file.suffix for file in files] == [".png", ".pdf"]
    with Image.open(files[0]) as image:
        assert image.width > image.height
        assert len(image.convert("RGB").getcolors(1 << 20) or []) > 50  # something is drawn
    assert files[1].read_bytes().startswith(b"%PDF")
