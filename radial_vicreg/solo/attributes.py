"""Attributes of images for solo-learn's own readers, which give only the images' numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from radial_vicreg.config import RunConfig
from radial_vicreg.data.celeba import load_attributes
from radial_vicreg.errors import UserError


def attributes_by_index(config: RunConfig) -> Tensor:
    """Look up the attributes of the training images for solo-learn's readers, which give only their numbers.

    Image folders and, with ``dali.encode_indexes_into_labels``, DALI number the files of the single class folder in
    sorted order, as in the table.

    Args:
        config: of solo-learn's script, with ``data.dataset: custom``.

    Returns:
        Zeros and ones, uint8, shape ``(N, attributes)``.

    Raises:
        UserError: a setting that would change the numbers or the labels, or no table next to the images.
    """
    data = config.data
    if data.format == "dali" and not config.dali.encode_indexes_into_labels:
        raise UserError(
            "attributes are looked up by file index, which DALI returns only with dali.encode_indexes_into_labels=true"
        )
    if (data.fraction or -1) > 0:
        raise UserError("data.fraction renumbers the images, so their attributes would be wrong: omit it")
    if data.val_path is not None:
        raise UserError(
            "solo-learn's validation does not return the index of an image: set data.val_path=null, or use "
            "radial-vicreg pretrain"
        )
    return load_attributes(str(data.train_path)).values


def replace_targets(batch: list[Tensor], table: Tensor) -> list[Tensor]:
    """Replace the targets of a training batch ``[indexes, views, targets]`` by the attributes of its images."""
    indexes, views, _ = batch
    return [indexes, views, table[indexes.to(table.device)].to(indexes.device, torch.float32)]
