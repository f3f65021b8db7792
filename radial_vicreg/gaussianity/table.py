"""The statistics as text tables."""

from __future__ import annotations

from radial_vicreg.gaussianity.content import Details, Diagnosis, Output

ROWS = {
    "count": "embeddings N",
    "dim": "dimension d",
    "mean_share": "mean's share of the squared norm",
    "effective_rank": "effective rank (RankMe)",
    "uniformity": "uniformity of directions",
    "w1_chi": "W1 of the radii to chi",
    "kl": "KL of the radii to chi, nats",
    "sliced_w2": "sliced W2 to the normal",
    "epps_pulley": "Epps-Pulley (SIGReg)",
    "standardised_w1_chi": "standardised: W1 of the radii",
    "standardised_kl": "standardised: KL of the radii",
    "standardised_sliced_w2": "standardised: sliced W2",
    "standardised_epps_pulley": "standardised: Epps-Pulley",
    "constant_dimensions": "dimensions without variance",
}
"""Statistics with their labels, in display order."""

NORMAL = "normal"
"""Header of the columns of normal samples."""


def source_lines(content: Diagnosis) -> list[str]:
    """Describe the sources, one line per source.

    Args:
        content: diagnosis from :func:`radial_vicreg.gaussianity.measure.diagnose`.
    """
    return [f"{source['label']}: {_describe(source['details'])}" for source in content["sources"]]


def tables(content: Diagnosis) -> list[tuple[list[str], list[list[str]]]]:
    """Make a table for each output: a header, and a row for each of :data:`ROWS`.

    Args:
        content: see :func:`source_lines`.
    """
    return [_table(content, output) for output in outputs_of(content)]


def outputs_of(content: Diagnosis) -> list[str]:
    """List the outputs that at least one source has, in order."""
    return list(dict.fromkeys(name for source in content["sources"] for name in source["outputs"]))


def _table(content: Diagnosis, output: str) -> tuple[list[str], list[list[str]]]:
    """Build a column per source; after consecutive sources of equal size, add the column of a normal sample."""
    sources = [source for source in content["sources"] if output in source["outputs"]]
    having = [(source["label"], source["outputs"][output]) for source in sources]
    header, columns = [output], [list(ROWS.values())]
    for index, (label, found) in enumerate(having):
        header.append(label)
        columns.append(_column(found, found["statistics"]))
        following = having[index + 1][1] if index + 1 < len(having) else None
        if following is None or following["normal"] != found["normal"]:
            header.append(NORMAL)
            columns.append(_column(found, found["normal"]))
    return header, [list(line) for line in zip(*columns, strict=True)]


def _column(found: Output, statistics: dict[str, float]) -> list[str]:
    values = {**statistics, "count": found["count"], "dim": found["dim"]}
    return [_text(values[name]) for name in ROWS]


def _text(value: float) -> str:
    whole = value == round(value) or 1e3 <= abs(value) < 1e6
    return f"{value:.0f}" if whole else f"{value:#.3g}".rstrip(".")


def _describe(details: Details) -> str:
    parts = [details["source"]]
    if details.get("untrained"):
        parts.append("random weights of its seed")
    elif details.get("epoch") is not None:
        parts.append(f"epoch {details['epoch']}")
    if "weights" in details:
        parts.append(f"weights {details['weights']}")
    if "images" in details:
        parts.append(f"images {details['images']}")
    return "; ".join(parts)
