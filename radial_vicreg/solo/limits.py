"""Refuse what solo-learn's own scripts do not support before they start, instead of by an assertion or a traceback.

Keys that only ``radial-vicreg pretrain`` reads declare it at their fields (:mod:`radial_vicreg.config.readers`).
The checks of this module depend on a value, on several keys, on files or on installed packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hydra.errors import CompactHydraException

from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError, did_you_mean
from radial_vicreg.names.data_sets import FORMATS, SCRIPT_FORMATS, is_folder, lacks_labels, readable_as
from radial_vicreg.names.networks import SOLO_LARGE_VIEWS

_FOLDERS = readable_as("dali")  # read from class folders, and validated at VALIDATION_PIXELS
_H5_DATASETS = readable_as("h5")

VALIDATION_PIXELS = 224
"""Resolution at which solo-learn validates image folders, whatever the training resolution is."""


class ScriptRefusal(UserError, CompactHydraException):
    """A :class:`UserError` under solo-learn's script; Hydra prints its message without a traceback."""


@contextmanager
def in_one_line() -> Iterator[None]:
    """Make Hydra print a :class:`UserError` of the block as one line."""
    try:
        yield
    except UserError as error:
        raise ScriptRefusal(str(error)) from error


def validates_folders(config: RunConfig) -> bool:
    """Return whether solo-learn's script validates on an image folder, and thus at :data:`VALIDATION_PIXELS`."""
    data = config.data
    return data.dataset in _FOLDERS and _validates(config) and config.limit_val_batches != 0


def refuse_impossible(config: RunConfig) -> None:
    """Refuse, in one line each, settings with which solo-learn's ``main_pretrain.py`` fails later.

    Args:
        config: configuration of the script, after its ``parse_cfg``.

    Raises:
        UserError: precision=auto; a number of large crops other than two; solo-learn's kNN with a torchmetrics that
            has removed what it needs; DALI without a validation set.
    """
    if config.precision == "auto":
        raise UserError(
            "precision=auto works with `radial-vicreg pretrain` only; use one of Lightning's values: precision="
            "bf16-mixed, 16-mixed or 32"
        )
    data = config.data
    large = SOLO_LARGE_VIEWS if data.num_large_crops is None else data.num_large_crops
    if large != SOLO_LARGE_VIEWS:
        raise UserError(
            f"solo-learn's script accepts {SOLO_LARGE_VIEWS} large crops and any number of small ones, got "
            f"{large} large: correct num_crops of augmentations, or use `radial-vicreg pretrain host=standalone`, "
            "which accepts any number"
        )
    if config.knn_eval.enabled and (reason := knn_fails()):
        raise UserError(f"knn_eval does not work: {reason}; use the kNN of probes.encoder_knn=true")
    if data.format == "dali" and not _validates(config) and config.limit_val_batches != 0:
        raise UserError(
            "data.format=dali without a validation set fails at the start, since solo-learn gives Lightning no "
            "validation loader: add limit_val_batches=0, or use data.format=image_folder"
        )


def refuse_images(config: RunConfig) -> None:
    """Refuse images that solo-learn's readers would misread or would not find.

    Args:
        config: configuration of the script.

    Raises:
        UserError: a format that is not read for the data set; ``data.no_labels`` with anything but files in the folder.
        OSError: a folder cannot be listed.
    """
    data = config.data
    if data.format not in FORMATS:  # which refuse_unread refuses
        raise UserError(
            f"unknown data.format {data.format!r}: {did_you_mean(data.format, SCRIPT_FORMATS, what='solo-learn has')}"
        )
    if data.format == "h5":
        if data.dataset not in _H5_DATASETS:
            raise UserError(
                f"data.format=h5 is read with data.dataset={' or '.join(_H5_DATASETS)} only: solo-learn ignores "
                f"it with data.dataset={data.dataset}; use data.format=image_folder"
            )
        if data.train_path is not None and Path(data.train_path).is_dir():
            raise UserError(
                f"data.format=h5 needs a file, and data.train_path={data.train_path} is a folder: use "
                "data.format=image_folder, or set the path of the file"
            )
    if lacks_labels(data.dataset, data.no_labels) and data.format != "dali":
        _refuse_folders(data.train_path)


def refuse_devices(config: RunConfig) -> None:
    """Refuse devices that solo-learn's script counts differently from Lightning, by ``len(devices)``.

    It takes ``"2"`` for one process and ``"0,1"`` for three, and scales the rates accordingly.

    Args:
        config: configuration of the script.

    Raises:
        UserError: the devices are neither ``"1"`` nor a list.
    """
    if config.devices != "1" and not isinstance(config.devices, tuple):
        raise UserError(
            'devices must be "1" or a list such as [0,1] under solo-learn\'s script, which scales the rates by'
            f' len(devices), got {config.devices!r}; for several processes on CPUs, use devices="1" num_nodes=N and'
            " start it N times with NODE_RANK, MASTER_ADDR and MASTER_PORT"
        )


def refuse_links(config: RunConfig) -> None:
    """Refuse links in image folders that solo-learn's readers, which follow every link, would read wrongly.

    Files that the readers do not read as images are counted as well.

    Args:
        config: configuration of the script.

    Raises:
        UserError: a link leads to a folder that contains it, or to another class.
        OSError: a folder cannot be listed.
    """
    # Imported here, since it loads torchvision, which `doctor` does not need.
    from radial_vicreg.data.listing import Omitted, class_folders, labelled_files

    data = config.data
    if lacks_labels(data.dataset, data.no_labels) or data.dataset not in _FOLDERS or not is_folder(data.format):
        return
    for path in filter(None, (data.train_path, data.val_path)):
        if Path(path).is_dir():
            omitted = Omitted()
            labelled_files(path, class_folders(path, omitted), omitted)
            omitted.tell(path)


def knn_fails() -> str:
    """Explain why solo-learn's kNN cannot be built here; empty if it can."""
    try:
        found = version("torchmetrics")
    except PackageNotFoundError:
        return ""
    return "" if found.startswith("0.") else f"solo-learn's kNN needs torchmetrics below 1.0, and {found} is installed"


def _refuse_folders(path: str | None) -> None:
    """Refuse a folder in which solo-learn's reader of unlabelled images would open entries that are not images."""
    root = Path(str(path))
    if not root.is_dir():
        return  # its reader reports this
    others = sorted(entry.name for entry in root.iterdir() if entry.name.startswith(".") or not entry.is_file())
    if others:
        raise UserError(
            f"data.no_labels=true: solo-learn's script reads every entry of data.train_path={path} as an image, "
            f"but {len(others):,} are not images, such as {others[0]}: put only image files into the folder, or, "
            "with class folders, keep data.no_labels=false"
        )


def _validates(config: RunConfig) -> bool:
    return config.data.val_path is not None and not config.data.no_labels
