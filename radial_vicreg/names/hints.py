"""Find the known name that was meant, from other projects' names, parts of names and misspellings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from radial_vicreg.names.terms import OBJECTIVE

SYNONYMS: dict[str, tuple[str, ...]] = {
    "lr": ("optimizer.lr",),  # the probes have one, too
    "learning_rate": ("optimizer.lr", "lr"),
    "base_lr": ("optimizer.lr", "lr"),
    "wd": ("optimizer.weight_decay",),
    "bs": ("optimizer.batch_size",),
    "batchsize": ("optimizer.batch_size",),
    "n": ("num_samples", "optimizer.batch_size"),
    "samples": ("num_samples",),
    "epochs": ("max_epochs", "steps"),
    "num_epochs": ("max_epochs",),
    "iterations": ("steps", "max_epochs"),
    "iters": ("steps", "max_epochs"),
    "num_steps": ("steps", "max_epochs"),
    "d": ("method_kwargs.proj_output_dim", "dim"),
    "dim": ("method_kwargs.proj_output_dim",),
    "embedding_dim": ("method_kwargs.proj_output_dim",),
    "hidden_dim": ("method_kwargs.proj_hidden_dim",),
    **{
        alias: (f"method_kwargs.{name}", *key.aliases[: key.aliases.index(alias)])  # synthetic runs take the first
        for name, key in OBJECTIVE.items()
        for alias in key.aliases
    },
    "objective": ("method_kwargs.radial_objective",),
    "model": ("backbone.name",),
    "arch": ("backbone.name",),
    "architecture": ("backbone.name",),
    "encoder": ("backbone.name",),
    "path": ("data.train_path",),
    "root": ("data.train_path",),
    "data_dir": ("data.train_path",),
    "data_path": ("data.train_path",),
    "train_dir": ("data.train_path",),
    "val_dir": ("data.val_path",),
    "image_size": ("augment.crop_size", "crop_size"),
    "img_size": ("augment.crop_size", "crop_size"),
    "resolution": ("augment.crop_size", "crop_size"),
    "gpus": ("devices",),
    "device": ("accelerator",),
    "nodes": ("num_nodes",),
    "amp": ("precision",),
    "fp16": ("precision",),
    "dtype": ("precision",),
    "out": ("runs_dir",),
    "out_dir": ("runs_dir", "out"),
    "output_dir": ("runs_dir", "out"),
    "save_dir": ("runs_dir", "out"),
    "log_dir": ("runs_dir", "out"),
    "resume": ("ckpt",),
    "resume_from": ("ckpt",),
    "ckpt_path": ("ckpt",),
    "random_state": ("seed",),
}
"""Names of keys in other projects and in the paper, each with the possible keys in order of preference."""

_LOOKS_ALIKE = 0.6  # difflib's own
_TYPO = 0.8
_SHORTEST_PART = 3  # letters of a word's beginning that identify it


def nearest(given: object, known: Iterable[str], cutoff: float = _LOOKS_ALIKE) -> str | None:
    """Find the known name with the most similar spelling.

    Args:
        given: the name as written.
        known: names to choose from.
        cutoff: similarity from 0 to 1 below which a name is not considered.

    Returns:
        The name, or None.
    """
    return next(iter(difflib.get_close_matches(str(given), list(known), n=1, cutoff=cutoff)), None)


def meant(given: object, known: Iterable[str], cutoff: float = _LOOKS_ALIKE) -> str | None:
    """Find the known name that was most likely meant.

    Only the last parts of dotted keys are compared: ``optimizer.learning_rate`` and ``optimizer.name`` share nothing
    but their section. Candidates are tried in this order: a synonym (:data:`SYNONYMS`), the same key in another
    section, a misspelling, a name made of the same words or their beginnings, and any similar spelling.

    Args:
        given: the name as written.
        known: names to choose from.
        cutoff: similarity from 0 to 1 below which a similar spelling is not considered.

    Returns:
        The name, or None.
    """
    section, _, name = str(given).rpartition(".")
    last_parts = {key: key.rpartition(".")[2] for key in known}
    ways: tuple[Callable[[str], bool], ...] = (
        lambda other: other == name,
        lambda other: _likeness(name, other) >= _TYPO,
        lambda other: _same_words(name, other),
        lambda other: _likeness(name, other) >= cutoff and len(name) > _SHORTEST_PART,
    )
    found = _synonyms(name, section, last_parts)
    for way in ways:
        found = found or [key for key, other in last_parts.items() if way(other)]
    return max(found, key=lambda key: _fit(section, name, key), default=None)


def _synonyms(name: str, section: str, last_parts: dict[str, str]) -> list[str]:
    """List the keys that a synonym stands for: those in the given section, otherwise in the synonym's order."""
    for target in SYNONYMS.get(name.lower().replace("-", "_"), ()):
        leaf = target.rpartition(".")[2]
        found = [key for key, other in last_parts.items() if other == leaf]
        if beside := [key for key in found if section and key.rpartition(".")[0] == section]:
            return beside
        if found:
            return [target] if target in found else found
    return []


def _fit(section: str, name: str, key: str) -> tuple[float, ...]:
    """Rank keys of one kind of match by similarity of section, then of name, then by shortness."""
    other_section, _, other = key.rpartition(".")
    return _likeness(section, other_section), _likeness(name, other), -len(key)


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio()


def _same_words(one: str, other: str) -> bool:
    """Return whether every word of one name begins a word of the other: ``workers`` and ``num_workers``."""
    words = [re.findall(r"[a-z]+|\d+", text.lower()) for text in (one, other)]
    return any(few and all(_begins_one(word, many) for word in few) for few, many in (words, words[::-1]))


def _begins_one(word: str, others: list[str]) -> bool:
    return any(word == other or (len(word) >= _SHORTEST_PART and other.startswith(word)) for other in others)
