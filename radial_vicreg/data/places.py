"""Check the folders of images that settings name, without PyTorch and without opening an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.data.listing import Omitted, class_folders
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import first_of


def check_same_classes(train_classes: Sequence[str], val_classes: Sequence[str]) -> None:
    """Require equal class names in training and validation, since targets are positions among them.

    Args:
        train_classes: class names of the training folder.
        val_classes: class names of the validation folder.

    Raises:
        UserError: they differ; the message names the differing ones.
    """
    only_train = sorted(set(train_classes) - set(val_classes))
    only_val = sorted(set(val_classes) - set(train_classes))
    if only_train or only_val:
        raise UserError(
            f"training and validation classes differ: only in training {first_of(only_train)},"
            f" only in validation {first_of(only_val)}; both folders need the same class sub-folders"
        )


def require_directory(path: str | Path | None, key: str, command: str | None = None) -> Path:
    """Return ``path`` as a ``Path`` when it is a folder.

    Args:
        path: value of a configuration key.
        key: the key's name, for the message.
        command: command that prepares the folder, for the message.

    Returns:
        The folder.

    Raises:
        UserError: no value, or no such folder.
    """
    if path is None or str(path) == "":
        raise UserError(f"{key} is not set: set it to the folder that contains the images, {key}=DIR")
    root = Path(path)
    if not root.is_dir():
        state = "is not a folder" if root.exists() else "does not exist"
        prepared = "" if command is None else f"`{command}` prepares it; or "
        raise UserError(f"{key}={root} {state} (looked for {root.resolve()}): {prepared}correct the path, {key}=DIR")
    return root


def require_classes(directory: str | Path, key: str, omitted: Omitted | None = None) -> list[str]:
    """List the class sub-folders of a folder of labelled images, sorted, without hidden ones.

    Args:
        directory: an existing folder.
        key: name of the setting that gave it, for the message.
        omitted: collects the files next to the class folders.

    Raises:
        UserError: there are none.
    """
    names = class_folders(directory, omitted)
    if not names:
        raise UserError(
            f"{key}={directory} has no class sub-folders: expected {directory}/CLASS/*.jpg"
            " (images without labels: data.no_labels=true)"
        )
    return names
