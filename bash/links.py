"""Follow every local link of a built site; print the broken ones and end with exit status 1 if there are any.

    python bash/links.py docs/_build/html

Checked are files and, of pages, the places in them (`page.html#place`). Links to other sites are not followed, but
nothing may be loaded from there: the site works without a network.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = ("stylesheet", "preload", "modulepreload", "icon", "manifest")
"""Relations of a `link` that a browser loads at once."""


class Page(HTMLParser):
    """What a page leads to and loads, and the places in it that others lead to."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the links and names of one element."""
        relations = (dict(attrs).get("rel") or "").split()
        for name, value in attrs:
            if value and (name in ("href", "src") or (tag, name) == ("object", "data")):
                self.links.append(value)
                if name != "href" or (tag == "link" and any(relation in LOADED for relation in relations)):
                    self.loaded.append(value)
            elif value and name in ("id", "name"):
                self.places.add(value)


def broken_links(site: Path) -> list[str]:
    """Return a line for each local link of the pages below `site` that leads nowhere."""
    pages = {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}
    found = []
    for file, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.netloc and link in page.loaded:
                found.append(f"{file.relative_to(site.resolve())}: {link}: loaded from another site")
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            place = unquote(parts.fragment)
            if not target.exists():
                found.append(f"{file.relative_to(site.resolve())}: {link}: no such file")
            elif place and target in pages and place not in pages[target].places:
                found.append(f"{file.relative_to(site.resolve())}: {link}: no such anchor")
    return found


def main(site: Path) -> int:
    """Print what is broken."""
    if not (site / "index.html").is_file():
        print(f"{site} has no index.html: build the site first (bash bash/docs.sh)", file=sys.stderr)
        return 2
    found = broken_links(site)
    print("\n".join(found) or f"no broken link in {sum(1 for _ in site.rglob('*.html'))} pages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
