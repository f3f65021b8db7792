"""bash/links.py follows the links of a built site, as `bash bash/docs.sh` calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LINKS = Path(__file__).parents[2] / "bash" / "links.py"


def follow(site: Path, **pages: str) -> subprocess.CompletedProcess[str]:
    """The script's answer to a site of these pages."""
    site.mkdir()
    for name, body in pages.items():
        (site / f"{name}.html").write_text(body)
    return subprocess.run([sys.executable, str(LINKS), str(site)], capture_output=True, text=True)


def test_links_to_pages_places_and_other_sites_are_fine(tmp_path: Path) -> None:
    body = (
        '<a href="two.html#here">a</a><a href="#top">b</a><a href="https://example.org/gone">c</a><p id="top"></p>'
        '<link rel="canonical" href="https://example.org/"><img src="data:image/png;base64,AAAA">'
    )
    done = follow(tmp_path / "site", index=body, two='<h2 id="here">h</h2><a href="index.html">back</a>')
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 pages" in done.stdout


def test_links_that_lead_nowhere_and_what_a_page_loads_from_another_site_are_named(tmp_path: Path) -> None:
    elsewhere = "loaded from another site"
    wrong = {
        '<a href="gone.html">a</a>': "gone.html: no such file",
        '<img src="figures/gone.png">': "figures/gone.png: no such file",
        '<a href="index.html#gone">a</a>': "index.html#gone: no such anchor",
        '<a href="#gone">a</a>': "#gone: no such anchor",
        '<script src="https://cdn.example.org/a.js"></script>': f"https://cdn.example.org/a.js: {elsewhere}",
        '<link rel="preload stylesheet" href="//example.org/a.css">': f"//example.org/a.css: {elsewhere}",
        '<img src="http://example.org/a.png">': f"http://example.org/a.png: {elsewhere}",
    }
    done = follow(tmp_path / "site", index="".join(wrong))
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == sorted(f"index.html: {said}" for said in wrong.values())


def test_a_site_that_was_not_built_is_refused(tmp_path: Path) -> None:
    done = follow(tmp_path / "site")
    assert done.returncode == 2
    assert "build the site first" in done.stderr
