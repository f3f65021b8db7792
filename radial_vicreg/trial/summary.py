"""The result of a trial: a table, and three sentences."""

from __future__ import annotations

from itertools import combinations

from radial_vicreg.probes.registry import probe_in_words
from radial_vicreg.trial.comparison import Accuracy, Comparison

_COLUMNS = {
    "w1_chi": ("W1 to chi", ".2f"),
    "mean_share": ("offset's share", ".0%"),
    "sliced_w2": ("sliced W2", ".2f"),
    "effective_rank": ("effective rank", ".0f"),
}
_MOVED = 0.5  # share of VICReg's W1 below which the term has moved the radii


def table(content: Comparison) -> tuple[list[str], list[list[str]]]:
    """Make a table with a row for each method, the untrained network's probe, and normal samples of the same size.

    Args:
        content: from :func:`radial_vicreg.trial.comparison.compare`.

    Returns:
        Header and rows.
    """
    header = [f"N {content['count']:,}, d {content['dim']}", *(label for label, _ in _COLUMNS.values())]
    rows = [[method["label"], *_cells(method["statistics"])] for method in content["methods"]]
    rows.append(["normal sample", *_cells(content["normal"])])
    if content["untrained"] is None:
        return header, rows
    probes = [*(method["probe"] for method in content["methods"]), None]
    rows = [[*row, _probe(probe)] for row, probe in zip(rows, probes, strict=True)]
    rows.append(["untrained", *[""] * len(_COLUMNS), _probe(content["untrained"])])
    return [*header, f"{probe_in_words()} (%)"], rows


def sentences(content: Comparison) -> list[str]:
    """Describe what the radial term did to the radii, what it did to the rest, and what cannot be concluded.

    Args:
        content: see :func:`table`.

    Returns:
        Three sentences; each names the page that has more.
    """
    return [_radii(content), _rest(content), _limits(content)]


def _radii(content: Comparison) -> str:
    vicreg, radial, _ = (method["statistics"]["w1_chi"] for method in content["methods"])
    moves = "moves" if radial < _MOVED * vicreg else "does not yet move"
    return (
        f"Lengths: the radial term {moves} the lengths of the embeddings to chi({content['dim']}): their W1 to chi is "
        f"{radial:.2f}, and {vicreg:.2f} with {_base(content)} (docs/first_run.md)."
    )


def _rest(content: Comparison) -> str:
    vicreg, radial, mean = (method["statistics"] for method in content["methods"])
    nearer = "closer to" if radial["sliced_w2"] < vicreg["sliced_w2"] else "farther from"
    return (
        f"Directions: an offset that all embeddings share makes {radial['mean_share']:.0%} of the mean squared length "
        f"({vicreg['mean_share']:.0%} with {_base(content)}, {mean['mean_share']:.0%} with a term for the mean), and "
        f"random slices of the embeddings are {nearer} a normal sample than those of {_base(content)} (docs/offset.md)."
    )


def _limits(content: Comparison) -> str:
    methods = content["methods"]
    what = "Not shown: which method has better features."
    size = f"one seed and {methods[0]['steps']} steps are too few; docs/study2.md compares ten seeds."
    probes = [method["probe"] for method in methods if method["probe"] is not None]
    if not probes:
        return f"{what} The images have no labels for a probe, and {size}"
    overlap = all(max(a["low"], b["low"]) <= min(a["high"], b["high"]) for a, b in combinations(probes, 2))
    intervals = f"The 95 % intervals of the {probe_in_words()} {'overlap' if overlap else 'do not all overlap'}"
    return f"{what} {intervals}{', and' if overlap else ', but'} {size}"


def _base(content: Comparison) -> str:
    return content["methods"][0]["label"]


def _cells(statistics: dict[str, float]) -> list[str]:
    return [format(statistics[name], form) for name, (_, form) in _COLUMNS.items()]


def _probe(probe: Accuracy | None) -> str:
    return "" if probe is None else f"{probe['top1']:.1f} [{probe['low']:.1f}, {probe['high']:.1f}]"
