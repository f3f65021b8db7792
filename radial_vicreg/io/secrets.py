"""Keep passwords and API keys out of everything that a run writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from radial_vicreg.errors import UserError

HIDDEN = "<hidden>"
_SECRET = {
    *("key", "apikey", "accesskey", "secretkey", "privatekey", "token", "secret", "auth", "authorization", "bearer"),
    *("password", "passwd", "passphrase", "pass", "pwd", "pw", "credential", "credentials"),
}
"""Last words of names of passwords and API keys."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NO_SECRETS = {"PWD"}  # variables: the shell's working directory
_SHORTEST = 8  # a shorter value is no password, and would be found inside of ordinary words
_ENVIRONMENT = re.compile(r"\$\{\s*oc\.env\s*:\s*([^\s,{}]+)")
_IN_AN_ADDRESS = re.compile(r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)")
_TOKENS = re.compile(
    r"\b(hf_\w{20,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|(AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{35}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+)"
)
"""Tokens of Hugging Face, GitHub, GitLab, OpenAI, Slack, AWS and Google, and JSON web tokens, by their beginnings."""


def refuse_secrets(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that holds an API key or a password: it would be copied into results and logs.

    Args:
        config: plain containers.

    Raises:
        UserError: there is one; the message names its key and not its value.
    """
    for key, what in _secret_keys(config, "", _known_secrets()):
        raise UserError(
            f"{key} {what}, and a configuration is copied into results.json, checkpoints and logs: remove it and "
            "set it in the environment (WANDB_API_KEY for W&B)"
        )


def refuse_short_secrets(text: str) -> None:
    """Refuse a text that reads an environment password which is too short to be found and hidden in outputs.

    Args:
        text: text whose interpolations are not resolved.

    Raises:
        UserError: the text reads such a password; the message names the variable.
    """
    for name in _ENVIRONMENT.findall(text):
        if is_secret(name) and 0 < len(os.environ.get(name, "")) < _SHORTEST:
            raise UserError(
                f"${{oc.env:{name}}} looks like a password, and a configuration is copied into results.json and"
                f" logs, where one of fewer than {_SHORTEST} characters cannot be hidden: remove it"
            )


def without_secrets(value: Any) -> Any:
    """Hide the environment's secrets, which ``${oc.env:...}`` may have copied, passwords in URLs, and tokens.

    Args:
        value: plain containers.

    Returns:
        The same value with ``<hidden>`` in place of each of them.
    """
    return _replaced(value, _known_secrets())


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Return whether the name of a key or a variable is one of an API key or a password."""
    words = _WORD.findall(name.rpartition(".")[2])
    return bool(words) and words[-1].lower() in _SECRET


def _secret_keys(node: Any, prefix: str, known: list[str]) -> Iterator[tuple[str, str]]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            if isinstance(value, str) and value and is_secret(str(key)):
                yield f"{prefix}{key}", "looks like a password"
            yield from _secret_keys(value, f"{prefix}{key}.", known)
    elif isinstance(node, (list, tuple)):
        for index, value in enumerate(node):
            yield from _secret_keys(value, f"{prefix}{index}.", known)
    elif isinstance(node, str):
        if _IN_AN_ADDRESS.search(node):
            yield prefix[:-1], "contains a password in a URL"
        elif _TOKENS.search(_without(node, known)):  # secrets of the environment are hidden
            yield prefix[:-1], "contains a token"


def _known_secrets() -> list[str]:
    """List the environment's secrets, the longest first: one may be a part of another."""
    named = (text for name, text in os.environ.items() if is_secret(name) and name not in _NO_SECRETS)
    return sorted({text for text in named if len(text) >= _SHORTEST}, key=lambda text: (-len(text), text))


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _replaced(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return _TOKENS.sub(HIDDEN, _IN_AN_ADDRESS.sub(HIDDEN, _without(value, secrets)))
    if isinstance(value, Mapping):
        return {_replaced(key, secrets): _replaced(item, secrets) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(item, secrets) for item in value]
    return value
