"""Whole training steps of both hosts against solo-learn's own VICReg: the same configuration, images and workers.

    python -m benchmarks.step [--dims 512 8192] [--backbones tiny resnet18] [--seconds 45] [--block 6] [--compile]

Lightning's loop trains every variant for a few steps in turn. A timing is the time from the end of one step to the end
of the next, including data, logging and optimizer; the first steps of a block are excluded. Every variant trains in the
precision of the configuration: float16 on a GPU, float32 on a CPU. The last table shows the share of each part of a
step of this package, timed by the clock (on a CPU only, since a GPU runs asynchronously). The projector's hidden width
is always 512, so that the cost of the loss is not dominated by two 8192 x 8192 layers.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import logging
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.runner import (
    RESULTS,
    Timing,
    as_plain,
    markdown_table,
    milliseconds,
    output_folder,
    quartile_range,
    save,
)
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import open_data
from radial_vicreg.losses._log_terms import LogTerms
from radial_vicreg.solo.host import build_solo
from radial_vicreg.train.hardware import effective_hardware
from radial_vicreg.train.run import build_standalone, prepare

SOLO, HOSTED, STANDALONE, FULL, COMPILED, SOLO_COMPILED = (
    "solo-learn's VICReg",
    "Radial-VICReg, host solo",
    "Radial-VICReg, host standalone",
    "the same, default probes and diagnostics",
    "host standalone, compiled",
    "solo-learn's VICReg, compiled",
)
LEFT_OUT = 1  # first steps of a block, in which workers start and the optimizer allocates its buffers
IMAGE_SIZE, FEATURES = 32, 512


class Stopwatch(pl.Callback):
    """Record the seconds between the ends of two steps, without the first steps of a block."""

    def __init__(self, device: str) -> None:
        self.device, self.last = device, 0.0
        self.seconds: list[float] = []

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()
        now = time.perf_counter()
        if trainer.global_step > LEFT_OUT:
            self.seconds.append(now - self.last)
        self.last = now


class Variant:
    """A model with its loader, trained in blocks of steps."""

    def __init__(
        self, model: pl.LightningModule, loader: DataLoader[Any], steps: int, device: str, precision: Any
    ) -> None:
        self.model, self.loader, self.steps, self.device, self.precision = model, loader, steps, device, precision
        self.stopwatch = Stopwatch(device)

    def block(self, *callbacks: pl.Callback) -> None:
        trainer = pl.Trainer(
            accelerator="gpu" if self.device == "cuda" else "cpu",
            devices=1,
            precision=self.precision,
            max_steps=LEFT_OUT + self.steps,
            callbacks=[*callbacks, self.stopwatch],
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            limit_val_batches=0,
        )
        trainer.fit(self.model, self.loader)

    def timing(self) -> Timing:
        seconds = self.stopwatch.seconds
        return Timing(statistics.median(seconds), quartile_range(seconds), len(seconds), 1)


def make_images(folder: Path, count: int) -> Path:
    """Make random images in two classes."""
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class_{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (IMAGE_SIZE, IMAGE_SIZE, 3), dtype=np.uint8)).save(path)
    return folder


def configuration(images: Path, dim: int, options: argparse.Namespace, extra: list[str]) -> RunConfig:
    cfg = compose(
        "radialvicreg",
        [
            "radialvicreg/dataset=folder",
            f"data.train_path={images}",
            f"data.num_workers={options.workers}",
            f"optimizer.batch_size={options.batch_size}",
            f"method_kwargs.proj_hidden_dim={FEATURES}",
            f"method_kwargs.proj_output_dim={dim}",
            "method_kwargs.small_image_stem=true",
            f"accelerator={'gpu' if options.device == 'cuda' else 'cpu'}",
            "host=standalone",
            *extra,
        ],
    )
    return prepare(run_config(cfg))


def build(name: str, images: Path, dim: int, backbone: str, options: argparse.Namespace) -> Variant:
    """Build a variant by name."""
    plain = ["diagnostics.enabled=false", "probes.projector_linear=false", "probes.encoder_mlp=false"]
    config = configuration(images, dim, options, [] if name == FULL else plain)
    build_parts = build_standalone if name in (STANDALONE, FULL, COMPILED) else build_solo
    run = build_parts(config, open_data(config))
    model = run.model
    if name in (SOLO, SOLO_COMPILED):
        from solo.methods.vicreg import VICReg

        model = VICReg(run.model.cfg).to(memory_format=torch.channels_last)
        model.backbone = run.model.backbone  # with the requested stem; solo-learn chooses it by the dataset's name
    if backbone == "tiny":
        model.backbone = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(3 * (IMAGE_SIZE // 4) ** 2, FEATURES))
    if name in (COMPILED, SOLO_COMPILED):
        for part in ("backbone", "projector", *(["objective"] if name == COMPILED else [])):
            getattr(model, part).compile(backend=options.compile)
    if name not in (SOLO, SOLO_COMPILED):
        model.results_folder = tempfile.mkdtemp(dir=images.parent)  # type: ignore[assignment]
    precision = effective_hardware(config)["precision"]
    return Variant(model, run.train_loader, options.block, options.device, precision)


def compare_steps(images: Path, dim: int, backbone: str, options: argparse.Namespace) -> dict[str, Timing]:
    """Time blocks of steps of every variant in turn, for about ``options.seconds``."""
    names = [STANDALONE, FULL]
    if importlib.util.find_spec("solo") is not None:
        names = [SOLO, HOSTED, *names]
    if options.compile:
        names += [COMPILED, *([SOLO_COMPILED] if SOLO in names else [])]
    variants = {name: build(name, images, dim, backbone, options) for name in names}
    if options.ready:
        for variant in variants.values():
            variant.loader = ReadyLoader(variant.loader, LEFT_OUT + options.block)
    began, rounds = time.monotonic(), 0
    while rounds < 2 or time.monotonic() - began < options.seconds:
        for variant in variants.values():
            variant.block()
        rounds += 1
    return {name: variant.timing() for name, variant in variants.items()}


class Parts:
    """Seconds spent in each part of a step; nested parts count for the outer part only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._busy = False

    def around(self, owner: Any, method: str, part: str) -> None:
        """Time a method of one object, or of a class."""
        original: Callable[..., Any] = getattr(owner, method)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._busy:
                return original(*args, **kwargs)
            self._busy = True
            began = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds[part] += time.perf_counter() - began
                self._busy = False

        # Bypass __setattr__ of modules and loaders, so that the method becomes a plain instance attribute.
        (type if isinstance(owner, type) else object).__setattr__(owner, method, timed)


class UpdateClock(pl.Callback):
    """Time the optimizer's own work, from the end of the backward pass to the end of the step.

    Excluded first steps are discarded, and values are saved after the last step, so that measurements at the end of
    training are not counted.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts, self.began = parts, 0.0
        self.kept: dict[str, float] = {}

    def on_before_optimizer_step(self, *_: Any) -> None:
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.parts.seconds["optimizer"] += time.perf_counter() - self.began
        if trainer.global_step == LEFT_OUT:
            self.parts.seconds.clear()
        self.kept = dict(self.parts.seconds)


class ClockedLoader(DataLoader[Any]):
    """A loader that records the time that the loop waits for a batch."""

    def __init__(self, loader: DataLoader[Any], parts: Parts) -> None:
        super().__init__(loader.dataset, batch_size=None)
        self.inner, self.parts = loader, parts

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Any:
        batches = iter(self.inner)
        while True:
            began = time.perf_counter()
            batch = next(batches, None)
            self.parts.seconds["data"] += time.perf_counter() - began
            if batch is None:
                return
            yield batch


class ReadyLoader(DataLoader[Any]):
    """A loader that repeats one batch, so that no variant waits for images."""

    def __init__(self, loader: DataLoader[Any], count: int) -> None:
        super().__init__(loader.dataset, batch_size=None)
        self.batch, self.count = next(iter(loader)), count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Any:
        return itertools.repeat(self.batch, self.count)


def where_it_goes(images: Path, dim: int, backbone: str, options: argparse.Namespace) -> dict[str, float]:
    """Measure the share of each part in a step of the standalone host, with the default probes and diagnostics."""
    variant = build(FULL, images, dim, backbone, options)
    parts, model = Parts(), variant.model
    parts.around(model, "forward", "forward")
    parts.around(model.objective, "forward", "loss")
    parts.around(model, "backward", "backward")
    parts.around(LogTerms, "compute", "logging")
    parts.around(model, "log", "logging")
    parts.around(model, "log_dict", "logging")
    variant.loader = ClockedLoader(variant.loader, parts)
    clock = UpdateClock(parts)
    variant.block(clock)
    total = sum(variant.stopwatch.seconds)
    shares = {part: seconds / total for part, seconds in clock.kept.items()}
    return {**shares, "rest": 1 - sum(shares.values()), "seconds": statistics.median(variant.stopwatch.seconds)}


def comparison_table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        times = {name: Timing(**value) for name, value in row["seconds"].items()}
        for name, timing in times.items():
            rate = f"{1 / timing.median:.3g}"
            speed = f"{times[SOLO].median / timing.median:.2f}" if SOLO in times else "-"
            cells.append([row["backbone"], row["dim"], name, milliseconds(timing), timing.samples, rate, speed])
    return markdown_table(["backbone", "d", "variant", "ms a step", "steps", "steps/s", "x solo-learn"], cells)


def share_table(rows: list[dict[str, Any]]) -> str:
    names = ["data", "forward", "loss", "backward", "optimizer", "logging", "rest"]
    cells = [[row["backbone"], row["dim"], *(f"{row['parts'].get(name, 0.0):.1%}" for name in names)] for row in rows]
    return markdown_table(["backbone", "d", *names], cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", nargs="+", type=int, default=[512, 8192])
    parser.add_argument("--backbones", nargs="+", choices=("tiny", "resnet18"), default=["tiny", "resnet18"])
    parser.add_argument("--seconds", type=float, default=45.0, help="for each combination")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--block", type=int, default=6, help="consecutive steps of a variant before the next one")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--ready", action="store_true", help="use one batch that stays in memory")
    parser.add_argument("--compile", action="store_const", const="inductor", help="also measure under torch.compile")
    parser.add_argument("--out", type=output_folder, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        images = make_images(Path(scratch) / "images", (LEFT_OUT + options.block) * options.batch_size)
        for backbone in options.backbones:
            for dim in options.dims:
                times = compare_steps(images, dim, backbone, options)
                parts = where_it_goes(images, dim, backbone, options)
                rows.append({"backbone": backbone, "dim": dim, "seconds": as_plain(times), "parts": parts})
                print(comparison_table(rows[-1:]), share_table(rows[-1:]), sep="\n\n", flush=True)
    tables = {"Steps": comparison_table(rows), "Where a step goes (default probes and diagnostics)": share_table(rows)}
    title = f"Training steps, batch {options.batch_size}, {options.workers} workers, median ± interquartile range"
    path = save("step", title, tables, {"rows": rows}, options.device, options.out)
    print(f"{path.with_suffix('.md')} and .json")


if __name__ == "__main__":
    main()
