"""The statistics as text tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from radial_vicreg.diagnostics.dimensions import LEVEL
from radial_vicreg.gaussianity.content import Details, Diagnosis, Output
from radial_vicreg.gaussianity.references import FULL

ROWS = {
    "count": "embeddings N",
    "dim": "dimension d",
    "mean_share": "mean's share of the squared norm",
    "effective_rank": "RankMe (effective rank)",
    "lidar": "LiDAR",
    "uniformity": "uniformity of directions",
    "w1_chi": "W1 of the radii to chi",
    "kl": "KL of the radii to chi, nats",
    "sliced_w2": "sliced W2 to the normal",
    "epps_pulley": "Epps-Pulley (SIGReg)",
    "standardised_w1_chi": "standardised: W1 of the radii",
    "standardised_kl": "standardised: KL of the radii",
    "standardised_sliced_w2": "standardised: sliced W2",
    "standardised_epps_pulley": "standardised: Epps-Pulley",
    "failing_dimensions": f"share of dimensions failing at {100 * LEVEL:g} %",
    "worst_statistic": "worst dimension: statistic",
    "worst_dimension": "worst dimension: index",
    "pair_correlation": "pairs: correlation",
    "pair_square_correlation": "pairs: correlation of squares",
    "constant_dimensions": "dimensions without variance",
}
"""Statistics with their labels, in display order."""

NORMAL = "normal"
"""Header of the columns of normal samples."""

PERCENTILE = "pct"
"""Header of the columns of percentiles."""

OUTSIDE = "*"
"""Mark of a value outside the band."""

_OPTIONAL = ("lidar",)  # rows of some sources only
_SIZES = ("count", "dim")
_FEWEST_DIGITS, _MOST_DIGITS = 3, 6


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


def notes(content: Diagnosis) -> list[str]:
    """Explain the columns of normal samples.

    Args:
        content: see :func:`source_lines`.
    """
    draws = sorted({output["draws"] for source in content["sources"] for output in source["outputs"].values()})
    lines = []
    for number in draws:
        if number >= FULL:
            lines += [
                f"{NORMAL}: median of {number} standard normal samples of the same N and d",
                f"{_band_name(number)}: their range, which another normal sample leaves with a probability of 5 %",
                f"{PERCENTILE}: percentage of these samples with a smaller value",
            ]
        else:
            lines += [
                f"{NORMAL}: median of {number} standard normal samples of the same N and d",
                f"{_band_name(number)}: their range, which another normal sample leaves with a probability of "
                f"{200 / (number + 1):.0f} %: values outside it are not marked",
            ]
    return [*lines, f"{OUTSIDE}: outside the band"] if draws and draws[-1] >= FULL else lines


def outputs_of(content: Diagnosis) -> list[str]:
    """List the outputs that at least one source has, in order."""
    return list(dict.fromkeys(name for source in content["sources"] for name in source["outputs"]))


def is_outside(value: float, band: tuple[float, float]) -> bool:
    """Return whether a value is outside its band."""
    return not math.isnan(value) and not band[0] <= value <= band[1]


def _table(content: Diagnosis, output: str) -> tuple[list[str], list[list[str]]]:
    """Build two columns per source; after consecutive sources of equal size, add those of normal samples."""
    having = [
        (source["label"], source["outputs"][output]) for source in content["sources"] if output in source["outputs"]
    ]
    names = [name for name in ROWS if name not in _OPTIONAL or any(name in found["statistics"] for _, found in having)]
    digits = {name: _digits([found for _, found in having], name) for name in names}
    header, columns = [output], [[ROWS[name] for name in names]]
    for index, (label, found) in enumerate(having):
        header.append(label)
        columns.append([_value(found, name, digits[name]) for name in names])
        if found["percentile"]:
            header.append(PERCENTILE)
            columns.append([_percentile(found, name) for name in names])
        following = having[index + 1][1] if index + 1 < len(having) else None
        if following is None or (following["count"], following["dim"]) != (found["count"], found["dim"]):
            header += [NORMAL, _band_name(found["draws"])]
            columns.append([_normal(found, name, digits[name]) for name in names])
            columns.append([_band(found, name, digits[name]) for name in names])
    return header, [list(line) for line in zip(*columns, strict=True)]


def _band_name(draws: int) -> str:
    return "95 % band" if draws >= FULL else f"range of {draws}"


def _value(found: Output, name: str, digits: int) -> str:
    if name in _SIZES:
        return _padded(str(found[name]))  # type: ignore[literal-required]
    value = found["statistics"].get(name, math.nan)
    band = found["normal_band"].get(name)
    # A normal sample leaves the range of a few draws too often for a mark.
    return _padded(_text(value, digits), found["draws"] >= FULL and band is not None and is_outside(value, band))


def _padded(text: str, outside: bool = False) -> str:
    return f"{text} {OUTSIDE if outside else ' '}"


def _percentile(found: Output, name: str) -> str:
    value = found["percentile"].get(name)
    return "" if value is None or name in _SIZES else f"{value:.0f}"


def _normal(found: Output, name: str, digits: int) -> str:
    if name in _SIZES:
        return str(found[name])  # type: ignore[literal-required]
    return _text(found["normal"].get(name, math.nan), digits)


def _band(found: Output, name: str, digits: int) -> str:
    band = found["normal_band"].get(name)
    if band is None or name in _SIZES:
        return ""
    return " to ".join(_text(end, digits) for end in band)


def _digits(outputs: Sequence[Output], name: str) -> int:
    """Return the least number of digits that shows the width of each band, so that a value outside it looks outside."""
    bands = [output["normal_band"][name] for output in outputs if name in output["normal_band"]]
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        if all(low == high or _text(low, digits) != _text(high, digits) for low, high in bands):
            return digits
    return _MOST_DIGITS


def _text(value: float, digits: int) -> str:
    if math.isnan(value):
        return ""
    whole = value == round(value) or 10**digits <= abs(value) < 1e6
    return f"{value:.0f}" if whole else f"{value:#.{digits}g}".rstrip(".")


def _describe(details: Details) -> str:
    parts = [details["source"]]
    if details.get("untrained"):
        parts.append("random weights of its seed")
    elif details.get("epoch") is not None:
        parts.append(f"epoch {details['epoch']}")
    if "weights" in details:
        parts.append(f"weights {details['weights']}")
    if "views" in details:
        parts.append(f"{details['views']} views: LiDAR of all, every other row of the first")
    if "images" in details:
        parts.append(f"images {details['images']}")
    return "; ".join(parts)
