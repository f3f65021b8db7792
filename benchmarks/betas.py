"""Which beta for which d and batch: where the radial term alone puts the radii, and what LARS and SGD bear.

    python -m benchmarks.betas
    python -m benchmarks.betas --dims 384 --batches 4096 --ratios 0 0.25

Nothing is trained: the numbers are those of ``radial_vicreg.losses.radial_equilibrium`` and of the rule by which a run
warns before its first step (``radial_vicreg.nets.stability``). The first line prints the tables of docs/betas.md and
one of docs/tables.md; the last two are of the runs whose results are in ``docs/evidence/betas`` and ``readings``.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence

from benchmarks.runner import markdown_table
from benchmarks.studies import ACCURACY, EVIDENCE, VICREG, runs_of
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.losses import RadialEquilibrium, radial_equilibrium
from radial_vicreg.nets.stability import stability_of
from radial_vicreg.report.collect import Run, radius_figure
from radial_vicreg.report.setting import Setting

DIMS = (128, 256, 512, 1024, 2048, 4096, 8192)
BATCHES = (128, 256, 512, 1024)
_OPTIMIZERS = {"lars": "LARS", "adamw": "AdamW"}
RATIOS = (0.0, 0.001, 0.01, 0.1, 0.5, 1.0, 2.0)  # beta2 / beta1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS, help="of beta2 to beta1")
    arguments = parser.parse_args()
    dims, batches, ratios = arguments.dims, arguments.batches, arguments.ratios
    print(f"radial_ce_normalize: false\n\n{plain_table(dims, batches, ratios)}\n")
    print(f"radial_ce_normalize: true\n\n{divided_table(dims, batches, ratios)}\n")
    print(f"largest stable rate x beta1\n\n{stability_table(dims, batches)}\n")
    print(f"trained\n\n{trained_table(runs_of(EVIDENCE / 'betas'))}\n")
    print(f"both readings, trained (docs/tables.md)\n\n{readings_table(runs_of(EVIDENCE / 'readings'))}")


def plain_table(dims: Sequence[int], batches: Sequence[int], ratios: Sequence[float]) -> str:
    """Return one row per batch size; without the factor, all d almost agree."""
    rows = [
        [batch, *(settled(radial_equilibrium(dim, 1.0, ratio, count=batch) for dim in dims) for ratio in ratios)]
        for batch in batches
    ]
    return markdown_table(["batch", *map(heading, ratios)], rows)


def divided_table(dims: Sequence[int], batches: Sequence[int], ratios: Sequence[float]) -> str:
    """Return one row per dimension; with the factor, batch sizes almost agree. The last column is the KL itself."""

    def of(dim: int, ratio: float) -> str:
        return settled(radial_equilibrium(dim, 1.0, ratio, count=batch, normalize_ce=True) for batch in batches)

    rows = [[dim, *(of(dim, ratio) for ratio in ratios), of(dim, 1 / dim)] for dim in dims]
    return markdown_table(["d", *map(heading, ratios), "beta1 / d"], rows)


def heading(ratio: float) -> str:
    return "0" if ratio == 0 else f"{'' if ratio == 1 else f'{ratio:g} '}beta1"


def settled(found: Iterable[RadialEquilibrium | None]) -> str:
    """Format the standard deviation of the radii and their W1 to chi(d), as ranges if equilibria differ."""
    known = [one for one in found if one is not None]  # none is None, since the objective is kl
    return f"{spread(one.std for one in known)}, {spread(one.w1 for one in known)}"


def spread(values: Iterable[float]) -> str:
    ends = [f"{value:.2f}" for value in sorted(values)]
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]}-{ends[-1]}"


def stability_table(dims: Sequence[int], batches: Sequence[int]) -> str:
    """Return one row per dimension: the largest stable product of rate and beta1, and of configured lr and beta1."""
    columns = {"LARS": ("lars", 0.9), "SGD": ("sgd", 0.9), "SGD, momentum 0": ("sgd", 0.0)}
    rows = []
    for normalize, name, dim in [(False, "any", dims[0]), *((True, str(dim), dim) for dim in dims)]:
        rates = [largest(setting(*column, normalize, dim)) for column in columns.values()]
        written = [largest(setting("lars", 0.9, normalize, dim, batch), as_written=True) for batch in batches]
        rows.append([str(normalize).lower(), name, *(f"{float(f'{value:.3g}'):g}" for value in (*rates, *written))])
    return markdown_table(["1/d", "d", *columns, *(f"lr, batch {batch}" for batch in batches)], rows)


def trained_table(runs: Iterable[Run]) -> str:
    """Return one row per run: where the radial term alone would put the radii, and where training has put them."""
    rows: list[list[object]] = []
    for run in sorted(runs, key=lambda run: (run.setting.order, run.seed or 0)):
        cells = _radial_cells(run.setting) if run.setting.radial else [VICREG, "", ""]
        mean, std, w1 = (run.figure(radius_figure("final", name)) for name in ("radius_mean", "radius_std", "w1_chi"))
        cells += [run.seed, f"{mean:.1f} ± {std:.2f}", f"{w1:.2f}", f"{run.figure(ACCURACY):.1f}"]
        rows.append(cells)
    return markdown_table(["beta1, beta2", "1/d", "computed", "seed", "radii", "W1", "probe, %"], rows)


def readings_table(runs: Iterable[Run]) -> str:
    """Return one row per run of the two readings of the cross-entropy, with 1/d and without."""
    rows: list[list[object]] = []
    for run in sorted(runs, key=_reading):
        optimizer, name = run.results.config["optimizer"], _reading(run)[2]
        final, top1 = run.results.radii.final, run.figure(ACCURACY)
        found, batch = final.eval, final.batch
        rows.append(
            [
                f"{_OPTIMIZERS[optimizer['name']]}, {optimizer['lr']:g}",
                run.seed,
                {0: VICREG, 1: "1/d off", 2: "1/d on"}[name],
                f"{found.w1_chi:.2f}",
                f"{batch.w1_chi:.2f}",
                f"{found.radius_mean:.1f} ± {found.radius_std:.2f}",
                f"{found.embedding_mean_norm:.1f}",
                f"{found.effective_rank:.0f}",
                f"{top1:.1f}",
            ]
        )
    header = ["optimizer", "seed", "run", "W1", "W1, batch", "radii", "mean norm", "rank", "probe, %"]
    return markdown_table(header, rows)


def _reading(run: Run) -> tuple[bool, int, int]:
    """Return the place of a run in the table: optimizer, seed, and method."""
    is_adam, divided = run.setting.details["optimizer"] == "adamw", run.setting.details.get("ce_normalize")
    return is_adam, run.seed or 0, 0 if divided is None else 1 + bool(divided)


def _radial_cells(setting: Setting) -> list[object]:
    beta1, beta2 = setting.radial["beta1"], setting.radial["beta2"]
    divided, batch = setting.details["ce_normalize"], setting.details["batch_size"]
    equilibrium = radial_equilibrium(setting.dim, beta1, beta2, count=batch, normalize_ce=divided)
    return [f"{beta1:g}, {beta2:.3g}", str(divided).lower(), settled([equilibrium])]


def largest(config: RunConfig, as_written: bool = False) -> float:
    """Return the largest stable product of the rate, or of ``optimizer.lr``, and beta1."""
    found = stability_of(config)
    assert found is not None  # LARS that excludes biases, and SGD, have a limit
    rate = config.optimizer.lr if as_written else found.rate
    return rate * config.method_kwargs.radial_ce_loss_weight * found.limit / found.curvature


def setting(optimizer: str, momentum: float, normalize: bool, dim: int, batch: int = 256) -> RunConfig:
    """Return the configuration whose limit is computed."""
    base = base_of(optimizer)
    objective = {"proj_output_dim": dim, "radial_ce_normalize": normalize}
    arguments = base.optimizer.kwargs.model_copy(update={"momentum": momentum})
    parts = {
        "method_kwargs": base.method_kwargs.model_copy(update=objective),
        "optimizer": base.optimizer.model_copy(update={"batch_size": batch, "kwargs": arguments}),
    }
    return base.model_copy(update=parts)


@functools.cache
def base_of(optimizer: str) -> RunConfig:
    """Return the paper's configuration with an optimizer; LARS excludes biases, as in the paper."""
    return run_config(compose("radialvicreg", ["data.train_path=.", f"radialvicreg/optimizer={optimizer}"]))


if __name__ == "__main__":
    main()
