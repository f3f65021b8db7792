"""Groups of runs with the same images; only within a group are figures averaged or compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from radial_vicreg.runs.origin import Images, compare_fingerprints, other_images

_WORDS = {"train": ("trained on", "unknown training images"), "val": ("validated on", "unknown validation images")}
_NONE = {"train": "without training images", "val": "without validation"}


@dataclass
class ImageSet:
    """Training and validation images that several runs share, as far as known.

    Attributes:
        best: fingerprints of the run that has the most of them.
        members: fingerprints of every run.
        name: name of the image folder; other images may have the same name.
        validated: whether the runs validated; otherwise the validation images are those of their offline probes.
    """

    best: Images
    members: list[Images] = field(default_factory=list)
    name: str = ""
    validated: bool = True

    def shown(self, images: Images) -> Images:
        """Record explicitly that a member has no validation images if none are known."""
        return images if self.validated or images.val is not None else images._replace(val=())

    def label(self, others: Sequence[ImageSet]) -> str:
        """Describe how this set differs from others: ``validated on 2:0a1b2c3d``; empty without others."""
        words = []
        best = [found.shown(found.best) for found in (self, *others)]
        for part, own, *rest in zip(Images._fields, *best, strict=True):
            if all(compare_fingerprints(own, other).same for other in rest):
                continue
            if own is None:
                words.append(_WORDS[part][1])
            else:
                words.append(f"{_WORDS[part][0]} {own[-1]}" if own else _NONE[part])
        return ", ".join(words)


def image_sets(found: Sequence[Images], name: str = "", validated: bool = True) -> list[ImageSet]:
    """Group the images of runs into sets whose fingerprints agree.

    Fingerprints are compared in the newest version that both runs have. A run with fewer fingerprints, or none, joins
    the set that agrees with it if there is exactly one. If several agree, the match is ambiguous, and the run forms a
    set of its own.

    Args:
        found: fingerprints of each run's images.
        name: name of the image folder.
        validated: whether the runs validated.

    Returns:
        The sets, those with the most fingerprints first; every element of ``found`` is a member of one.
    """
    equal: dict[Images, list[Images]] = defaultdict(list)
    for images in found:
        equal[images].append(images)
    sets: list[ImageSet] = []
    for images in sorted(equal, key=lambda images: (-_known(images), repr(images))):
        agreeing = [known for known in sets if all(other_images(images, member) is None for member in known.members)]
        if len(agreeing) == 1 and _known(images) < _known(agreeing[0].best):
            agreeing[0].members += equal[images]
        else:
            sets.append(ImageSet(images, list(equal[images]), name, validated))
    return sets


def _known(images: Images) -> int:
    return sum(0 if fingerprints is None else 1 + len(fingerprints) for fingerprints in images)
