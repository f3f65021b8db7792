"""What each row of ``radial-vicreg diagnose`` can see: the tables of docs/diagnose.md.

    python -m benchmarks.power             # measures for minutes, writes results/power.json, prints the tables
    python -m benchmarks.power --tables    # prints the tables of results/power.json

Samples of known distributions are compared with normal samples as the command does it. A row sees a sample if its
value is outside the band of 95 %. True normal samples calibrate the bands: a row is expected to leave its band in 5 %
of them. Each reference seed has its own normal samples and slices. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, product
from typing import Any

import torch
from torch import Tensor

from benchmarks.runner import RESULTS, markdown_table
from radial_vicreg.diagnostics.gaussianity import normal_sample
from radial_vicreg.gaussianity.matrix import matrix_statistics
from radial_vicreg.gaussianity.references import Reference, draws_for, values_of
from radial_vicreg.gaussianity.table import ROWS, is_outside
from radial_vicreg.io.files import write_json

FILE = RESULTS / "power.json"

SIZES = ((1000, 2), (1000, 64), (360, 512))
SEEDS = range(5)
"""Reference seeds; each has its share of the samples."""

NORMAL = "normal"
SAMPLES = 20
"""Samples of each counterexample, over all seeds."""
CALIBRATION = 200
"""True normal samples, over all seeds."""

_OFFSET = 0.5  # length of the mean
_SEPARATION = 0.9  # half the distance of the clusters' centres
_SCALE = 0.6  # of the narrow half of the mixture of scales


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="measure nothing, print the tables of results/power.json")
    if not parser.parse_args().tables:
        write_json(FILE, measure(show=lambda text: print(text, file=sys.stderr, flush=True)))
    for title, table in tables(json.loads(FILE.read_text())).items():
        print(f"{title}\n\n{table}\n")


def measure(
    sizes: Sequence[tuple[int, int]] = SIZES,
    seeds: Sequence[int] = SEEDS,
    samples: Mapping[str, int] | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Compare samples of every kind with the references of their size.

    Args:
        sizes: sizes N, d.
        seeds: reference seeds.
        samples: number of samples of each kind for each seed; None: those of the page.
        show: receives a line of text for each size and seed.

    Returns:
        By size: ``bands`` of each seed, and by kind, seed and sample the names of the rows that are ``outside``.
    """
    if samples is None:
        samples = {kind: (CALIBRATION if kind == NORMAL else SAMPLES) // len(SEEDS) for kind in KINDS}
    content: dict[str, Any] = {}
    for (count, dim), seed in product(sizes, seeds):
        of_size = content.setdefault(f"{count}x{dim}", {"bands": [], "outside": {kind: [] for kind in samples}})
        bands = reference_bands(count, dim, seed)
        of_size["bands"].append(bands)
        for kind, number in samples.items():
            found = [rows_outside(sample(kind, count, dim, seed, place), bands, seed) for place in range(number)]
            of_size["outside"][kind].append(found)
        show(f"{count} x {dim}, seed {seed}: done")
    return content


def reference_bands(count: int, dim: int, seed: int) -> dict[str, tuple[float, float]]:
    """Compute the bands of the table's rows, as ``radial-vicreg diagnose --seed`` does."""
    draws = range(draws_for(count, dim))
    values = values_of([matrix_statistics(normal_sample(count, dim, seed, draw), seed) for draw in draws])
    return {name: band for name, band in Reference(values, {}).bands().items() if name in ROWS and name != "count"}


def rows_outside(z: Tensor, bands: Mapping[str, tuple[float, float]], seed: int) -> list[str]:
    """List the rows whose value is outside its band."""
    statistics = matrix_statistics(z, seed)
    return [name for name, band in bands.items() if is_outside(statistics[name], (band[0], band[1]))]


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """Make a table for each size: the percentage of samples outside the band.

    Args:
        content: see :func:`measure`.

    Returns:
        Markdown by size.
    """
    found = {}
    for size, of_size in content.items():
        by_kind = {kind: list(chain.from_iterable(per_seed)) for kind, per_seed in of_size["outside"].items()}
        names = [name for name in ROWS if name in of_size["bands"][0]]
        rows = [
            [ROWS[name], *(_share([name in outside for outside in samples]) for samples in by_kind.values())]
            for name in names
        ]
        rows.append(["any row", *(_share([bool(outside) for outside in samples]) for samples in by_kind.values())])
        found[size] = markdown_table(["row", *by_kind], rows)
    return found


def sample(kind: str, count: int, dim: int, seed: int, place: int = 0) -> Tensor:
    """Draw a sample of a named distribution.

    Args:
        kind: name in :data:`KINDS`.
        count: N.
        dim: d.
        seed: reference seed.
        place: number of the sample.

    Returns:
        Shape ``(N, d)``.
    """
    number = (list(KINDS).index(kind) * 1000 + seed) * 1000 + place
    generator = torch.Generator().manual_seed(10**9 + number)  # apart from the seeds of slices and normal samples
    return KINDS[kind](count, dim, generator)


def _normal(count: int, dim: int, generator: torch.Generator) -> Tensor:
    return torch.randn(count, dim, generator=generator)


def _hypercube(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Random signs over the root of d, times radii of the chi distribution."""
    signs = _normal(count, dim, generator).sign() / math.sqrt(dim)
    return signs * _normal(count, dim, generator).norm(dim=1, keepdim=True)


def _x(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """An X in the plane of each two dimensions: the second is the first, with a random sign."""
    z = _normal(count, dim, generator)
    z[:, 1::2] = z[:, 0::2] * z[:, 1::2].sign()
    return z


def _laplace(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Independent Laplace dimensions of variance 1."""
    uniform = torch.rand(count, dim, generator=generator, dtype=torch.float64) - 0.5
    return (-uniform.sign() * torch.log1p(-2 * uniform.abs()) / math.sqrt(2)).float()


def _offset(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """A normal sample whose mean has the length 0.5, in a random direction."""
    return _normal(count, dim, generator) + _OFFSET * _direction(dim, generator)


def _low_rank(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """A normal sample of half the dimensions, rotated into all, with the same total variance."""
    rank = dim // 2
    basis = torch.linalg.qr(_normal(dim, rank, generator)).Q
    return _normal(count, rank, generator) @ basis.T * math.sqrt(dim / rank)


def _sphere(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Uniform directions, all radii the root of d."""
    z = _normal(count, dim, generator)
    return z / z.norm(dim=1, keepdim=True) * math.sqrt(dim)


def _clusters(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Two normal clusters along a random direction; mean 0 and covariance I in total."""
    direction = _direction(dim, generator)
    z = _normal(count, dim, generator)
    side = _SEPARATION * _normal(count, 1, generator).sign()
    along = (z @ direction)[:, None]
    return z + (side + (math.sqrt(1 - _SEPARATION**2) - 1) * along) * direction


def _scales(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """A mixture of a narrow and a wide normal distribution; covariance I in total."""
    wide = math.sqrt(2 - _SCALE**2)
    narrow = _normal(count, 1, generator) < 0
    return _normal(count, dim, generator) * torch.where(narrow, _SCALE, wide)


def _direction(dim: int, generator: torch.Generator) -> Tensor:
    direction = torch.randn(dim, generator=generator)
    return direction / direction.norm()


KINDS: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {
    NORMAL: _normal,
    "hypercube": _hypercube,
    "X": _x,
    "Laplace": _laplace,
    "offset": _offset,
    "low rank": _low_rank,
    "sphere": _sphere,
    "clusters": _clusters,
    "scales": _scales,
}
"""True normal samples and the counterexamples, by name."""


def _share(flags: list[bool]) -> str:
    return f"{100 * sum(flags) / len(flags):.0f}"


if __name__ == "__main__":
    main()
