"""``radial-vicreg synthetic``: a single run, a figure of the paper or the sweep of appendix C."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from radial_vicreg.cli.hydra_flags import hydra_parser, read_request
from radial_vicreg.cli.parser import Parser, example_text
from radial_vicreg.errors import UserError, did_you_mean
from radial_vicreg.names.choices import SYNTHETIC_FIGURES, SYNTHETIC_PRESETS
from radial_vicreg.names.configurations import names_in
from radial_vicreg.names.hints import meant, nearest

PROGRAM = "radial-vicreg synthetic"
_EXAMPLE = f"{PROGRAM} distribution=x_distribution steps=2000"
USAGE = f"""usage: {PROGRAM} [key=value ...]        one run; --cfg prints the keys with their values
       {PROGRAM} figure {"|".join(SYNTHETIC_FIGURES)} [--help]    a figure of the paper
       {PROGRAM} sweep [--help]         the sweep of appendix C

The meaning and the range of every key: docs/synthetic.md, radial_vicreg/paper/synthetic/settings.py.
{example_text(_EXAMPLE)}"""


def parser() -> Parser:
    """Make the parser of a single run."""
    return hydra_parser(PROGRAM, "Run one synthetic experiment.", "synthetic", _EXAMPLE, of_runs=False)


def figure_parser() -> Parser:
    """Make the parser of ``figure``."""
    made = Parser(
        prog=f"{PROGRAM} figure",
        description="Run the experiments of a figure of the paper and plot it.",
        example=f"{PROGRAM} figure 1 --preset quick",
    )
    made.add_argument(
        "number", choices=SYNTHETIC_FIGURES, help="figures of trained runs (2, 4, 5): `radial-vicreg report`"
    )
    made.add_argument("--out", type=Path, help="folder (default runs/synthetic/figureN-PRESET); it can be resumed")
    made.add_argument("--preset", choices=SYNTHETIC_PRESETS, default=SYNTHETIC_PRESETS[0])
    made.add_argument("--workers", type=int, help="processes (default: one per core)")
    made.add_argument("--seeds", type=int, help="seeds per setting (figure 1)")
    made.add_argument("--sweep", type=Path, help="folder of a sweep whose best settings are also plotted (figure 1)")
    return made


def sweep_parser() -> Parser:
    """Make the parser of ``sweep``."""
    made = Parser(
        prog=f"{PROGRAM} sweep",
        description="Run the sweep of appendix C. Start it again to resume it.",
        example=f"{PROGRAM} sweep --preset quick --shard 0/4",
    )
    made.add_argument("--preset", choices=SYNTHETIC_PRESETS, default=SYNTHETIC_PRESETS[0])
    made.add_argument("--out", type=Path, help="folder of the results (default runs/synthetic/sweep-PRESET)")
    made.add_argument("--shard", type=_shard, default=(0, 1), metavar="i/n", help="part i of n, from 0")
    made.add_argument("--workers", type=int, help="processes (default: one per core)")
    made.add_argument("--device", default="cpu", help="cpu, or a torch device that runs batches, e.g. cuda")
    return made


PARTS = {"figure": figure_parser, "sweep": sweep_parser}
"""Parser factories of this command's sub-commands, by name."""


def run(arguments: Sequence[str]) -> int:
    """Make one run, a figure or the sweep.

    Args:
        arguments: command line after ``synthetic``.

    Returns:
        0.

    Raises:
        UserError: an option, an override or a value is invalid.
    """
    what, *rest = arguments or [""]
    if what in ("-h", "--help"):
        print(USAGE.rstrip())
    elif what == "figure":
        _figure(rest)
    elif what == "sweep":
        _sweep(rest)
    elif "=" not in what and (part := nearest(what, PARTS)) is not None:
        raise UserError(f"{what!r} is not a part of synthetic; did you mean {PROGRAM} {part}?")
    else:
        _run(arguments)
    return 0


def _run(arguments: Sequence[str]) -> None:
    request = read_request(parser(), arguments, _setting)
    own = [] if request.config_path is None else names_in(request.config_path)
    if request.config_name not in (names := ["synthetic", *own]):  # the defaults would be found under any name
        hint = did_you_mean(request.config_name, names, what="there are")
        raise UserError(f"there is no synthetic configuration {request.config_name!r}; {hint}")
    from radial_vicreg.compose import declared_config
    from radial_vicreg.compose.yaml_guard import yaml_text
    from radial_vicreg.paper.synthetic.settings import Options

    options = declared_config(request.config_name, Options, request.overrides, request.config_path)
    if request.text_only:
        print(yaml_text(asdict(options)), end="")
        return
    config = options.config

    import numpy as np

    from radial_vicreg import __version__
    from radial_vicreg.figures import figure_files, figure_style
    from radial_vicreg.io.files import json_bytes
    from radial_vicreg.io.terminal import Bar
    from radial_vicreg.paper.synthetic import run as synthetic
    from radial_vicreg.paper.synthetic import run_figure as drawing
    from radial_vicreg.paper.synthetic.folder import RUN, SNAPSHOTS, names_of, result_folder

    out = Path(options.out or f"runs/synthetic/{config.distribution}-{config.key}")
    folder = result_folder(out, "out=DIR").claim(names_of(RUN))
    how: dict[str, Any] = {"device": options.device, "snapshots": options.snapshots}
    done = 0
    with Bar(config.distribution, config.steps) as bar:

        def show(step: int, terms: dict[str, float]) -> None:
            nonlocal done
            text = " ".join(f"{name} {value:.4g}" for name, value in terms.items())
            bar.relabel(f"{config.distribution} {text}")
            bar.advance(step - done)
            done = step

        result = synthetic.run(config, **how, progress=show)
    summary = {"version": __version__, **how, **synthetic.summarise(result, options.subsample)}
    steps, clouds = zip(*result.snapshots, strict=True)
    snapshots = io.BytesIO()
    np.savez_compressed(snapshots, steps=steps, points=np.stack(clouds).astype(np.float32))
    with figure_style():
        figure = figure_files(drawing.run_figure(result), RUN)
    folder.write({SNAPSHOTS: snapshots.getvalue(), **figure, "results.json": json_bytes(summary)})
    _print_summary(summary)
    print(f"{out}/results.json")


def _setting(name: str) -> str | None:
    from radial_vicreg.paper.synthetic.settings import Options

    return meant(name, [field.name for field in fields(Options)])


def _print_summary(summary: Mapping[str, Any]) -> None:
    print(summary["note"])
    if summary["after"] is None:
        return
    for name in ("w2_exact", "w2_sliced", "w1_chi", "radial_kl", "e2mc", "normality_p", "angle_p"):
        before, after = summary["before"][name], summary["after"][name]
        if before is not None:
            print(f"{name:>12}  {before:9.4f} -> {after:9.4f}")


def _figure(arguments: Sequence[str]) -> None:
    options = figure_parser().parse_args(list(arguments))
    if options.number == "3" and (options.seeds is not None or options.sweep is not None):
        raise UserError("--seeds and --sweep are options of figure 1; figure 3 has one run per setting")
    from radial_vicreg.paper.synthetic import figure1, figure3
    from radial_vicreg.paper.synthetic.folder import names_of, result_folder

    out = options.out or Path(f"runs/synthetic/figure{options.number}-{options.preset}")
    result_folder(out).claim(names_of(f"figure{options.number}"))
    with _row_bar() as on_row:
        workers = options.workers
        if options.number == "1":
            made = figure1.make_figure1(
                out, options.preset, sweep_folder=options.sweep, seeds=options.seeds, workers=workers, on_row=on_row
            )
            lines = figure1.table_lines(made)
        else:
            lines = figure3.table_lines(figure3.make_figure3(out, options.preset, workers=workers, on_row=on_row))
    print("\n".join(lines))
    print(f"{out}/results.json and {out}/figure{options.number}.png, .pdf, .svg")


def _sweep(arguments: Sequence[str]) -> None:
    options = sweep_parser().parse_args(list(arguments))
    from radial_vicreg.paper.synthetic.best_settings import summary_lines
    from radial_vicreg.paper.synthetic.folder import result_folder
    from radial_vicreg.paper.synthetic.sweep import PRESETS, read_rows, sweep
    from radial_vicreg.runs.results import RESULTS

    grid = PRESETS[options.preset]
    out = options.out or Path(f"runs/synthetic/sweep-{options.preset}")
    result_folder(out).claim([RESULTS])  # refuses the results of a training
    configs = grid.runs()
    with _row_bar() as on_row:
        sweep(
            configs,
            out,
            subsample=grid.subsample,
            shard=options.shard,
            workers=options.workers,
            device=options.device,
            on_row=on_row,
        )
    keys = {config.key for config in configs}
    rows = [row for row in read_rows(out) if row["key"] in keys]  # from all shards
    print(f"{len(rows)} of {len(configs)} runs of this sweep are in {out}")
    print("\n".join(summary_lines(rows)))


def _shard(text: str) -> tuple[int, int]:
    index, separator, count = text.partition("/")
    if not (separator and index.isdigit() and count.isdigit()):
        raise argparse.ArgumentTypeError(f"a shard is i/n, for example 0/16, got {text!r}")
    return int(index), int(count)


@contextmanager
def _row_bar() -> Iterator[Callable[[int, int, Any], None]]:
    """Make a progress callback over runs; its bar appears when work begins, and each sweep gets a new bar."""
    from radial_vicreg.io.terminal import Bar

    bar = Bar("runs", 0)
    with ExitStack() as bars:

        def on_row(done: int, total: int, row: Any) -> None:
            nonlocal bar
            if row is None:
                bars.close()
                bar = bars.enter_context(Bar("runs", total, done))
            else:
                bar.advance()

        yield on_row
