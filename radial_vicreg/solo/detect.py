"""Determine which host can be used here, and why."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from radial_vicreg.errors import UserError, did_you_mean
from radial_vicreg.names.networks import BACKBONES, SOLO_BACKBONES

INSTALL_HINT = (
    "git clone https://github.com/vturrisi/solo-learn, then pip install 'radial-vicreg[solo]' for what it imports, and "
    "export PYTHONPATH=THAT_FOLDER (or work in it)"
)
"""Advice for an environment without solo-learn, for any installation of this package."""

HOSTS = ("auto", "solo", "standalone")


@dataclass(frozen=True)
class SoloLearn:
    """The state of solo-learn in this environment.

    Attributes:
        usable: whether its main branch can be imported.
        reason: one sentence: where it is, or what is missing and what to do.
        location: its folder, if there is one.
    """

    usable: bool
    reason: str
    location: Path | None = None


def find_solo_learn() -> SoloLearn:
    """Look for solo-learn's files without importing them.

    Returns:
        The finding; nothing is raised.
    """
    spec = importlib.util.find_spec("solo")
    if spec is None or not spec.submodule_search_locations:
        return SoloLearn(False, f"solo-learn is not installed; {INSTALL_HINT}")
    location = Path(next(iter(spec.submodule_search_locations)))
    if not _is_main_branch(location):
        return SoloLearn(
            False,
            f"solo-learn {_version()} in {location} is a release without Hydra (1.0.2 is the last one on PyPI); "
            f"the main branch, 1.0.5 or newer, is needed: pip uninstall solo-learn, then {INSTALL_HINT}",
            location,
        )
    return SoloLearn(True, f"solo-learn in {location}", location)


def find_checkout(folder: Path) -> Path | None:
    """Put a checkout of solo-learn's main branch on Python's path, if no other solo-learn can be imported.

    Python does so for a script in that folder (``python main_pretrain.py``), but not for an installed command.

    Args:
        folder: the checkout; its folder ``solo`` must be that of solo-learn.

    Returns:
        The folder, if it was put on the path.
    """
    if find_solo_learn().usable or not _is_main_branch(folder / "solo"):
        return None
    sys.path.insert(0, str(folder.resolve()))
    importlib.invalidate_caches()
    return folder


def import_solo_learn() -> SoloLearn:
    """Look for solo-learn and import its methods, which takes seconds.

    Returns:
        The finding, usable only when the import worked; nothing is raised.
    """
    found = find_solo_learn()
    if not found.usable:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated timm and torch names, once for each backbone
            importlib.import_module("solo.methods")
    except Exception as error:  # another package may raise any error on import
        return SoloLearn(
            False,
            f"{found.reason} does not import ({type(error).__name__}: {error}); "
            "install what it needs: pip install 'radial-vicreg[solo]'",
            found.location,
        )
    return found


def choose_host(wanted: str) -> tuple[str, str]:
    """Decide between the hosts.

    Args:
        wanted: ``"auto"`` prefers solo-learn; ``"solo"`` also accepts a checkout in the working directory;
            ``"standalone"``.

    Returns:
        The host and the reason, one sentence.

    Raises:
        UserError: an unknown name, or ``"solo"`` where solo-learn cannot be used.
    """
    _check_name(wanted)
    if wanted == "standalone":
        return "standalone", "host=standalone was requested"
    if wanted == "solo":  # auto does not depend on the working directory
        find_checkout(Path.cwd())
    solo = import_solo_learn()
    if solo.usable:
        return "solo", solo.reason
    if wanted == "solo":
        raise _unusable(solo)
    return "standalone", solo.reason


def check_host(wanted: str, backbone: str) -> None:
    """Refuse a host or a backbone that does not exist, before solo-learn and PyTorch are imported.

    Args:
        wanted: as :func:`choose_host`.
        backbone: value of ``backbone.name``; ``timm:NAME`` is looked up when the network is built.

    Raises:
        UserError: an unknown host, ``"solo"`` where there is no solo-learn, or a backbone that the host does not have.
    """
    from radial_vicreg.config.lookups import unknown_backbone  # with pydantic, which completion does without

    _check_name(wanted)
    if wanted == "solo":
        find_checkout(Path.cwd())
    found = None if wanted == "standalone" else find_solo_learn()
    if wanted == "solo" and found is not None and not found.usable:
        raise _unusable(found)
    if backbone in BACKBONES or backbone.startswith("timm:"):
        return
    if found is None or not found.usable:
        raise unknown_backbone(backbone)
    if found.location is not None and not _mentions(found.location, backbone):
        hint = did_you_mean(backbone, (*BACKBONES, *SOLO_BACKBONES), what="solo-learn has")
        raise UserError(f"unknown backbone.name {backbone!r}: {hint}")


def _check_name(wanted: str) -> None:
    if wanted not in HOSTS:
        raise UserError(f"host must be one of {', '.join(HOSTS)}, got {wanted!r}")


def _unusable(found: SoloLearn) -> UserError:
    return UserError(f"host=solo cannot be used: {found.reason}, or use host=standalone")


def _mentions(package: Path, backbone: str) -> bool:
    """Return whether solo-learn may have a backbone: its base method, or our list, holds the name in quotes.

    A checkout may have more backbones than the release that our list was compared with.
    """
    if backbone in SOLO_BACKBONES:
        return True
    try:
        text = (package / "methods" / "base.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return f'"{backbone}"' in text or f"'{backbone}'" in text


def _is_main_branch(package: Path) -> bool:
    return (package / "args" / "pretrain.py").is_file()


def _version() -> str:
    try:
        return metadata.version("solo-learn")
    except metadata.PackageNotFoundError:
        return "(no version)"
