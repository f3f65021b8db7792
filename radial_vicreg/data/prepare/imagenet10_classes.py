"""Variants of ImageNet-10: choices of ten classes and of a split, with the numbers of images. Without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

CLASSES: dict[str, dict[str, str]] = {
    # What the first authors' own script links as ImageNet-10; the paper names no classes.
    "imagenette": {
        "n01440764": "tench",
        "n02102040": "English springer",
        "n02979186": "cassette player",
        "n03000684": "chain saw",
        "n03028079": "church",
        "n03394916": "French horn",
        "n03417042": "garbage truck",
        "n03425413": "gas pump",
        "n03445777": "golf ball",
        "n03888257": "parachute",
    },
    # ImageNet-10 of the literature on clustering, since Chang et al., Deep Adaptive Image Clustering, ICCV 2017.
    "clustering": {
        "n02056570": "king penguin",
        "n02085936": "Maltese dog",
        "n02128757": "snow leopard",
        "n02690373": "airliner",
        "n02692877": "airship",
        "n03095699": "container ship",
        "n04254680": "soccer ball",
        "n04285008": "sports car",
        "n04467665": "trailer truck",
        "n07747607": "orange",
    },
}
"""The ten classes by the name of their choice; the first is the default."""

ORIGINS = {"imagenette": "Imagenette", "clustering": "the clustering literature"}
SPLITS = ("imagenet", "imagenette")
"""Ways to divide the images into training and validation; the first is the default and the paper's."""

Counts = Mapping[str, Mapping[str, int]]
_IMAGENETTE = tuple(CLASSES["imagenette"])
COUNTS: dict[tuple[str, str], Counts] = {
    ("imagenette", "imagenet"): {
        "train": {**dict.fromkeys(_IMAGENETTE, 1300), "n03000684": 1194},
        "val": dict.fromkeys(_IMAGENETTE, 50),
    },
    ("imagenette", "imagenette"): {
        "train": dict(zip(_IMAGENETTE, (963, 955, 993, 858, 941, 956, 961, 931, 951, 960), strict=True)),
        "val": dict(zip(_IMAGENETTE, (387, 395, 357, 386, 409, 394, 389, 419, 399, 390), strict=True)),
    },
    ("clustering", "imagenet"): {
        "train": dict.fromkeys(CLASSES["clustering"], 1300),
        "val": dict.fromkeys(CLASSES["clustering"], 50),
    },
}
"""Images of each class, by choice of classes and split; Imagenette's are those of its file list."""
