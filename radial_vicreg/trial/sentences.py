"""The result of a trial in three sentences."""

from __future__ import annotations

from radial_vicreg.probes.registry import probe_in_words
from radial_vicreg.trial.comparison import Comparison, Measured

_MOVED = 0.5  # share of VICReg's W1 below which the term has moved the radii


def sentences(content: Comparison) -> list[str]:
    """Describe what the radial term did to the radii, what it did to the rest, and what cannot be concluded.

    Args:
        content: from :func:`radial_vicreg.trial.comparison.compare`.

    Returns:
        Three sentences; each names the page that has more.
    """
    return [_radii(content), _rest(content), _limits(content)]


def _radii(content: Comparison) -> str:
    vicreg, radial, _ = content["methods"]
    moved = radial["statistics"]["w1_chi"] < _MOVED * vicreg["statistics"]["w1_chi"]
    did = "moves the lengths of the embeddings to" if moved else "has not yet moved the lengths of the embeddings to"
    return (
        f"Lengths: the radial term {did} chi({content['dim']}): W1 to chi is {_each(content, 'w1_chi', '.2f')}; a "
        f"normal sample of {content['count']:,} has {content['normal']['w1_chi']:.2f} (docs/first_run.md)."
    )


def _rest(content: Comparison) -> str:
    return (
        "Directions: an offset that all embeddings share makes "
        f"{_each(content, 'mean_share', '.0%')} of the mean squared length; the sliced W2 distance to the normal "
        f"distribution is {_each(content, 'sliced_w2', '.2f')} (normal sample: {content['normal']['sliced_w2']:.2f}), "
        f"the effective rank {_each(content, 'effective_rank', '.0f')} (docs/offset.md)."
    )


def _limits(content: Comparison) -> str:
    methods = content["methods"]
    steps = methods[0]["steps"]
    if any(method["probe"] is None for method in methods):
        return (
            f"Not shown: whether the features are better. There are no labels for a probe, and {steps} steps of one "
            "seed would be too few (docs/study2.md has ten seeds)."
        )
    shown = ", ".join(f"{_probe(method)} ({method['label']})" for method in methods)
    untrained = content["untrained"]
    before = "" if untrained is None else f"; the untrained network has {untrained['top1']:.1f} %"
    return (
        f"Not shown: which method has better features. A {probe_in_words()} reads {shown} of {content['count']:,} "
        f"held-out images correctly (95 % intervals of one seed after {steps} steps{before}), which ranks nothing "
        "(docs/study2.md has ten seeds)."
    )


def _each(content: Comparison, name: str, form: str) -> str:
    texts = [f"{format(method['statistics'][name], form)} ({method['label']})" for method in content["methods"]]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _probe(method: Measured) -> str:
    probe = method["probe"]
    assert probe is not None
    return f"{probe['top1']:.1f} % [{probe['low']:.1f}, {probe['high']:.1f}]"
