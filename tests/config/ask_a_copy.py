"""Asks a copy of the package for what it makes of added keys: ``python ask_a_copy.py CONFIG``."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from radial_vicreg.config import read_config
from radial_vicreg.config.documents import json_schema, key_tables
from radial_vicreg.config.fields import choices, undeclared
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.errors import UserError
from radial_vicreg.runs.identity import config_hash, parts_of_release_0_2

PLAIN: dict[str, Any] = json.loads(sys.argv[1])
KEYS: dict[str, tuple[Any, Any]] = {
    "data.order": ("epoch", "once"),
    "data.bare": (3, 4),
    "optimizer.mood": (0.5, 0.6),
    "augmentations.0.color_jitter.depth": (1, 2),
    "method_kwargs.width": (1, 2),
    "toys": (False, True),
}
"""Each with its default and another value."""


def given(key: str, value: Any) -> dict[str, Any]:
    content = copy.deepcopy(PLAIN)
    *sections, name = key.split(".")
    node: Any = content
    for section in sections:
        node = node[int(section)] if isinstance(node, list) else node[section]
    node[name] = value
    return content


def said(act: Callable[[], Any]) -> str | None:
    try:
        act()
    except UserError as error:
        return str(error)
    return None


def hashed(key: str, value: Any) -> str:
    return config_hash(read_config(given(key, value)).plain())


def refusals(command: Any) -> list[str]:
    found = [said(partial(refuse_unread, read_config(given(key, other)), command)) for key, (_, other) in KEYS.items()]
    return [text for text in found if text is not None]


def main() -> None:
    stored = read_config(PLAIN).plain()
    answers = {
        "read": [read_config(PLAIN).data.order, read_config(given("data.order", "once")).data.order],  # type: ignore[attr-defined]
        "refused": [
            said(lambda: read_config(given("data.order", "never"))),
            said(lambda: read_config(given("data.ordr", "once"))),
            said(lambda: read_config(given("optimizer.mood", 2))),
        ],
        "stored": {key: stored[key] for key in stored if key in KEYS},
        "schema": json_schema()["$defs"]["DataConfig"]["properties"]["order"],
        "choices": choices("data.order"),
        "tables": key_tables(),
        "hashes": {key: [hashed(key, value) for value in values] for key, values in KEYS.items()},
        "of_0_2": parts_of_release_0_2(read_config(given("data.order", "once"))),
        "notes": {command: refusals(command) for command in ("script", "pretrain")},
        "undeclared": undeclared(),
    }
    print(json.dumps(answers))


main()
