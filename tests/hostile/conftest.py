"""Files that somebody's data set or download may hold, made on the fly."""

from __future__ import annotations

import io
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import tiny_settings, write_finished_run
from PIL import Image

from radial_vicreg.compose import compose

GREYS = np.arange(48, dtype=np.uint16).reshape(6, 8) * 1394  # 0 to 65,518
COLOURS = np.random.default_rng(1).integers(0, 256, (6, 8, 3), dtype=np.uint8)
ALPHA = np.tile(np.array([0, 128, 255, 7], dtype=np.uint8), 12).reshape(6, 8)


def encoded(image: Image.Image, fmt: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, fmt, **options)
    return stream.getvalue()


def grey(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[..., None], 3, axis=2).astype(np.uint8)


def palette_image() -> tuple[Image.Image, np.ndarray]:
    palette = np.array([[255, 0, 0], [0, 255, 0], [10, 20, 30]], dtype=np.uint8)
    indices = (np.arange(48, dtype=np.uint8) % 3).reshape(6, 8)
    image = Image.frombytes("P", (8, 6), indices.tobytes())
    image.putpalette(palette.ravel().tolist())
    return image, palette[indices]


def readable() -> dict[str, tuple[bytes, np.ndarray]]:
    """File name to content and the RGB pixels that it stands for, worked out without Pillow's ``convert``."""
    palette, palette_pixels = palette_image()
    frames = [Image.fromarray(COLOURS), Image.fromarray(255 - COLOURS)]
    animated: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "duration": 50}
    red = Image.new("CMYK", (8, 6), (0, 255, 255, 0))
    wide = np.random.default_rng(2).integers(0, 256, (1, 20_000, 3), dtype=np.uint8)
    scaled = np.round(GREYS / 257)  # 65,535 / 255
    plain = encoded(frames[0], "PNG")
    return {
        "rgb.png": (plain, COLOURS),
        "cmyk.jpg": (encoded(red, "JPEG", quality=100), np.full((6, 8, 3), (255, 0, 0), np.uint8)),
        "palette.png": (encoded(palette, "PNG"), palette_pixels),
        "palette with transparency.png": (encoded(palette, "PNG", transparency=b"\x00\x80\xff"), palette_pixels),
        "rgba.png": (encoded(Image.fromarray(np.dstack([COLOURS, ALPHA])), "PNG"), COLOURS),
        "grey with alpha.png": (encoded(Image.fromarray(ALPHA).convert("LA"), "PNG"), grey(ALPHA)),
        "16-bit.png": (encoded(Image.fromarray(GREYS), "PNG"), grey(scaled)),
        "16-bit.tif": (encoded(Image.fromarray(GREYS), "TIFF"), grey(scaled)),
        "16-bit.pgm": (b"P5 8 6 65535\n" + GREYS.astype(">u2").tobytes(), grey(scaled)),
        "1-bit.png": (encoded(Image.fromarray(ALPHA > 100), "PNG"), grey((ALPHA > 100) * 255)),
        "animated.png": (encoded(frames[0], "PNG", **animated), COLOURS),
        "animated.webp": (encoded(frames[0], "WEBP", lossless=True, **animated), COLOURS),
        "a GIF called.png": (encoded(palette, "GIF", save_all=True, append_images=[palette]), palette_pixels),
        "one pixel.png": (encoded(Image.new("RGB", (1, 1), (1, 2, 3)), "PNG"), np.array([[[1, 2, 3]]], np.uint8)),
        "wide.png": (encoded(Image.fromarray(wide), "PNG"), wide),
        "Größe 图像 🙂.png": (plain, COLOURS),
        "two\nlines.png": (plain, COLOURS),
    }


def unreadable() -> dict[str, bytes]:
    """File name to a content that is no image."""
    whole = Image.effect_noise((64, 64), 50)
    jpeg, png = encoded(whole, "JPEG"), encoded(whole, "PNG")
    huge = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    return {
        "truncated.jpg": jpeg[: len(jpeg) // 2],
        "truncated.png": png[: len(png) // 2],
        "empty.jpg": b"",
        "text.jpg": b"not an image",
        "page.png": b"<html><body>404</body></html>",
        "header only.png": png[:30],
        "bomb.png": b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", huge) + chunk(b"IDAT", zlib.compress(b"")),
        "floats.tif": encoded(Image.fromarray(GREYS.astype(np.float32)), "TIFF"),
        "bad\nname.png": b"?",
    }


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """``good``: path to its RGB pixels; ``bad``: paths that cannot be read, broken links among them."""
    root = tmp_path_factory.mktemp("corpus")
    good, bad = {}, []
    for name, (content, pixels) in readable().items():
        (root / name).write_bytes(content)
        good[root / name] = pixels
    (root / "link.png").symlink_to(root / "rgb.png")
    good[root / "link.png"] = COLOURS
    for name, content in unreadable().items():
        (root / name).write_bytes(content)
        bad.append(root / name)
    (root / "broken link.png").symlink_to(root / "nowhere.png")
    (root / "link to itself.png").symlink_to(root / "link to itself.png")
    bad += [root / "broken link.png", root / "link to itself.png"]
    return {"good": good, "bad": dict.fromkeys(bad)}


@pytest.fixture(scope="session")
def _finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run without the training: random weights of a very small ViT in a checkpoint, and its results."""
    root = tmp_path_factory.mktemp("finished")
    for split in ("train", "val"):
        for label in ("a", "b"):
            (root / split / label).mkdir(parents=True)
            for index in range(6):
                pixels = np.random.default_rng(index).integers(0, 256, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / split / label / f"{index}.png")
    cfg = compose("radialvicreg", tiny_settings(root / "train", root / "val", root))
    return write_finished_run(root / "run", cfg)


@pytest.fixture
def run_folder(_finished_run: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, to be spoilt."""
    return Path(shutil.copytree(_finished_run, tmp_path / "run"))
