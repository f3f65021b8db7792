"""The report's page in a browser, as wide as a desktop's window and as a phone's."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from radial_vicreg.paper.report import build_report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
OPTIONS += ["--disable-component-update", "--disable-sync", "--disable-quic", "--disable-dev-shm-usage"]
A4 = 680  # pixels of upright A4 between the page's margins
# Chromium's own windows are never narrower than 500 pixels, so the page stands in a frame.
FRAME = """<!DOCTYPE html><body><iframe style="border: 0; width: {width}px; height: 900px" srcdoc="{page}"></iframe>
<pre></pre><script>
document.querySelector("iframe").onload = event => {{
  const page = event.target.contentDocument, root = page.documentElement;
  const measure = found => ({{
    what: found.getAttribute("aria-label"), inner: found.scrollWidth, outer: found.clientWidth,
    shadow: getComputedStyle(found).backgroundImage.includes("gradient"), reached: found.tabIndex === 0}});
  if (!{printed}) page.querySelectorAll("details").forEach(each => each.open = true);
  document.querySelector("pre").textContent = JSON.stringify({{
    window: root.clientWidth, content: root.scrollWidth,
    headings: [...page.querySelectorAll("h2")].map(each => each.textContent.split(/[:(]/)[0].trim()),
    regions: [...page.querySelectorAll(".scroll")].map(measure),
    tables: [...page.querySelectorAll("table")].filter(each => each.checkVisibility())
      .map(each => each.caption.textContent),
    colours: [...page.querySelectorAll("body, td, caption, .paper, figcaption, .notes")].map(each => [
      getComputedStyle(each).color, getComputedStyle(page.body).backgroundColor]),
    images: [...page.images].map(each => each.complete && each.naturalWidth > 0 ? each.clientWidth : 0),
  }});
}};
</script>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason=f"no Chromium on this machine ({', '.join(NAMES)})"),
]


@pytest.fixture
def page(make_run: Callable, tmp_path: Path) -> str:
    for name in ("cifar100/resnet18/radialvicreg_d512", "cifar100/resnet18/vicreg_d512"):
        make_run(name, epochs=2)
    make_run(status="failed", error="the loss is not finite " * 9)
    build_report(tmp_path / "runs", tmp_path / "out")
    return (tmp_path / "out" / "report.html").read_text()


def test_the_page_fits_a_desktop_and_a_phone_and_what_is_wider_shows_that_it_scrolls(page: str, tmp_path: Path) -> None:
    seen = {width: look(page, width, tmp_path) for width in (1280, 390)}
    for width, found in seen.items():
        assert found["window"] <= width
        assert found["content"] <= found["window"]  # the page itself never scrolls sideways
        assert found["headings"] == ["All experiments", "Table 1", "Table 3", "Figures", "Missing", "Not used"]
        assert found["images"] == [648, 648]  # figure 2 and the curves, text at its own size
        assert all(region["shadow"] and region["reached"] for region in found["regions"])
    scrolling = {
        width: {r["what"] for r in found["regions"] if r["inner"] > r["outer"]} for width, found in seen.items()
    }
    assert any("All experiments" in name for name in scrolling[390])
    assert {"figure2", "curves"} <= scrolling[390]
    assert not {"figure2", "curves"} & scrolling[1280]


def test_paper_has_every_column_and_what_is_folded(page: str, tmp_path: Path) -> None:
    found = look(page.replace("@media print", "@media all"), A4, tmp_path, printed=True)
    assert found["content"] <= found["window"]
    assert all(region["inner"] <= region["outer"] for region in found["regions"])  # a printed page does not scroll
    parts = [caption.rpartition(", part ")[2] for caption in found["tables"] if "All experiments" in caption]
    assert parts == [f"{number} of {len(parts)}" for number in range(1, len(parts) + 1)]
    assert any(caption.startswith("Table 4: ") for caption in found["tables"])  # without a value, so it is folded


def test_text_is_legible_in_the_dark(page: str, tmp_path: Path) -> None:
    dark = "@media screen and (prefers-color-scheme: dark)"
    for scheme in (page, page.replace(dark, "@media screen")):
        pairs = {tuple(pair) for pair in look(scheme, 1280, tmp_path)["colours"]}
        assert min(contrast(*pair) for pair in pairs) > 4.5  # WCAG 2.2, 1.4.3
    assert dark in page
    assert max(luminance(background) for _, background in pairs) < 0.1


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours, ``rgb(0, 0, 0)``."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    shares = [int(value) / 255 for value in re.findall(r"\d+", colour)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
    return sum(weight * x for weight, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def look(page: str, width: int, folder: Path, printed: bool = False) -> Any:
    """Measure the page in a window of so many pixels."""
    file = folder / f"frame-{width}.html"
    file.write_text(FRAME.format(width=width, page=html.escape(page), printed=json.dumps(printed)))
    size = f"--window-size={width + 100},1000"
    done = subprocess.run(
        [str(CHROMIUM), *OPTIONS, size, f"--user-data-dir={folder / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    (found,) = re.findall("<pre>(.*?)</pre>", done.stdout)
    return json.loads(html.unescape(found))
