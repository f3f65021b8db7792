"""Keeping passwords and API keys out of everything that a run writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from radial_vicreg.errors import UserError

HIDDEN = "<hidden>"
_SECRET = re.compile(r"(^|[._])(api_?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)
_SHORTEST = 8  # a shorter value is no password, and would be found inside of ordinary words


def refuse_secrets(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that holds an API key or a password: it would be copied into results and logs.

    Args:
        config: plain containers.

    Raises:
        UserError: there is one; its key is named, its value is not.
    """
    for key in _secret_keys(config, ""):
        raise UserError(
            f"{key} looks like a password, and a configuration is copied into results.json, checkpoints and logs: take"
            " it out and give it in the environment (WANDB_API_KEY for W&B)"
        )


def without_secrets(value: Any) -> Any:
    """Hide the environment's secrets, which ``${oc.env:...}`` may have copied into a configuration.

    Args:
        value: plain containers.

    Returns:
        The same with ``<hidden>`` in the place of every such text.
    """
    secrets = [text for name, text in os.environ.items() if is_secret(name) and len(text) >= _SHORTEST]
    return _replaced(value, secrets) if secrets else value


def is_secret(name: str) -> bool:
    """Tell whether a key or a variable is named like one that holds an API key or a password."""
    return _SECRET.search(name) is not None


def _secret_keys(node: Any, prefix: str) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if isinstance(value, str) and value and is_secret(str(key)):
                yield f"{prefix}{key}"
            yield from _secret_keys(value, f"{prefix}{key}.")
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            yield from _secret_keys(value, f"{prefix}{index}.")


def _replaced(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, Mapping):
        return {_replaced(key, secrets): _replaced(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(item, secrets) for item in value]
    return value
