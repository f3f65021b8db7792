"""The stages of `benchmarks.gpu_check`, each a function; `python -m benchmarks.gpu_stages STAGE ...` runs one of them.

A stage is a sequence of checks. The result of a check is written to `OUT/STAGE.json` as soon as it is done.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_flatten

from benchmarks import data, objective, precision, step
from benchmarks.ddp_conformance import views
from benchmarks.gpu_check import ROOT
from benchmarks.gpu_runs import RUNS, SWEEPS, Found, Job, Skipped
from radial_vicreg.compose import compose, run_config
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.losses import objective as objective_module
from radial_vicreg.runtime import distributed
from radial_vicreg.sweeps import load_sweep

STUDY_IMAGES = 50_000
#: Tolerated difference of the first step to float32 on the CPU, relative to the largest loss; includes TF32 for "32".
FIRST = {"32": 2e-3, "16-mixed": 1e-2, "bf16-mixed": 3e-2}
#: Tolerance for all steps, which is larger because the optimizer amplifies rounding errors.
LATER = 0.2
#: A loss scale at which the first steps overflow; halved after each, it is in range before they are over.
OVERFLOWING_SCALE = 2.0**28
SIZES = ((256, 512), (256, 2048), (256, 8192), (4096, 8192))
COMPILED_SIZE = (256, 2048)
#: Steps of a run that are checked for synchronisation; earlier ones allocate buffers and caches.
WATCHED = range(3, 7)


# ---- images ----------------------------------------------------------------------------------------------------------


def images(job: Job) -> None:
    """Make small random images for every check; for speed and study, use the given images or more random ones."""

    def make(folder: Path, train: int, test: int) -> Found:
        for split, count in (("train", train), ("test", test)):
            step.make_images(folder / split, count)
        return Found(f"{train} and {test} random images")

    def given() -> Found:
        folder = job.scratch / "images"
        if job.tiny:
            raise Skipped("tiny sizes")
        if job.source is None:
            return make(folder, 12_800, 2_560)
        if job.source.is_dir():
            folder.symlink_to(job.source)
        else:
            shutil.unpack_archive(job.source, folder, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
        counts = {split: sum(1 for _ in (folder / split).glob("*/*")) for split in ("train", "test")}
        return Found(f"{job.source}: {counts}; train/CLASS/* and test/CLASS/* are needed", all(counts.values()))

    job.check("small", lambda: make(job.scratch / "small", *((80, 16) if job.tiny else (1024, 256))))
    job.check("large", given)


# ---- tests -----------------------------------------------------------------------------------------------------------


def gpu_test_files(folder: Path = ROOT / "tests") -> list[Path]:
    """List the test files that need a GPU, since collecting all others would take longer than running these."""
    return sorted(file for file in folder.rglob("test_*.py") if "mark.gpu" in file.read_text(encoding="utf-8"))


def tests(job: Job) -> None:
    """Run all tests that need a GPU, even after failures; counting by line includes a partial run."""

    def run() -> Found:
        if not (data.importable("pytest") and data.importable("hypothesis")):
            raise Skipped("pytest or hypothesis is not installed")
        command = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", "--slow", "--tb=short", "--color=no"]
        files = [str(file.relative_to(ROOT)) for file in gpu_test_files()]
        if job.tiny:  # all of them are skipped
            files = files[:1]
        pytest = subprocess.Popen(
            [*command, "-p", "no:cacheprovider", *files], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        counts, failed, began = {"PASSED": 0, "FAILED": 0, "ERROR": 0, "SKIPPED": 0}, [], time.monotonic()
        assert pytest.stdout is not None
        for line in pytest.stdout:
            print(line, end="", flush=True)
            if outcome := re.search(r"^(tests/\S+::.*) (PASSED|FAILED|ERROR|SKIPPED)", line):
                counts[outcome[2]] += 1
                failed += [outcome[1]] if outcome[2] in ("FAILED", "ERROR") else []
                found = Found(
                    ", ".join(f"{count} {kind.lower()}" for kind, count in counts.items()), not failed, failed
                )
                job.note(f"tests of {len(files)} files", found, began)
        status = pytest.wait()
        if not sum(counts.values()) or status not in (0, 1):
            return Found(f"pytest ended with status {status}", False)
        if counts["SKIPPED"] == sum(counts.values()):
            raise Skipped("no GPU" if job.tiny else "every test was skipped")
        return found

    job.check(f"tests of {len(gpu_test_files())} files", run)


# ---- precision -------------------------------------------------------------------------------------------------------


class Losses(pl.Callback):
    """Record the loss of each step, and the loss scale at the end."""

    def __init__(self, scale: float | None = None) -> None:
        self.wanted, self.losses, self.scales = scale, list[float](), list[float]()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.wanted is not None:
            trainer.precision_plugin.scaler = torch.amp.GradScaler(pl_module.device.type, init_scale=self.wanted)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        self.losses.append(float(outputs["loss"]))
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if scaler is not None:
            self.scales.append(float(scaler.get_scale()))


def compile_parts(job: Job) -> Callable[[pl.LightningModule], None]:
    """Compile the parts of a step in place, which keeps the names of weights."""

    def change(model: pl.LightningModule) -> None:
        for part in (model.backbone, model.projector, model.objective):
            part.compile(backend=job.backend)  # type: ignore[operator,union-attr]

    return change


def precisions(job: Job) -> None:
    """Compare training steps in each precision with float32 on the CPU, and the objective with float64."""
    reference: list[float] = []

    def on_cpu() -> Found:
        losses = Losses()
        job.train("precision 32", "accelerator=cpu", callbacks=[losses])
        reference.extend(losses.losses)
        return Found(f"{len(reference)} steps, loss {reference[0]:.4g} to {reference[-1]:.4g}", values=reference)

    def compare(kind: str, compiled: bool = False) -> Found:
        if kind == "16-mixed":
            job.needs_gpu()
        losses = Losses()
        job.train(f"precision {kind}", callbacks=[losses], change=compile_parts(job) if compiled else None)
        size = max(map(abs, reference))  # terms have both signs, so a single loss may be close to zero
        off = [abs(ours - exact) / size for ours, exact in zip(losses.losses, reference, strict=True)]
        said = f"off by {off[0]:.1e} in the first step, {max(off):.1e} at most"
        ok = off[0] <= FIRST[kind] and all(value <= LATER for value in off)  # False for NaN
        return Found(said, ok, losses.losses)

    def overflow() -> Found:
        job.needs_gpu()
        losses = Losses(scale=OVERFLOWING_SCALE)
        job.train("precision 16-mixed", "max_epochs=4", callbacks=[losses])
        steps = len(losses.losses)
        skipped = round(math.log2(OVERFLOWING_SCALE / losses.scales[-1]))
        ok = 0 < skipped < steps and all(map(math.isfinite, losses.losses))
        said = f"{skipped} of {steps} steps skipped, scale 2^{math.log2(losses.scales[-1]):.0f}"
        return Found(said, ok, losses.losses)

    def against_float64() -> Found:
        rows = precision.measure(job.device, seconds=1 if job.tiny else 10)
        print(precision.table(rows))
        worst = max(row["gradient_error"] for row in rows if row["type"] == "float32")
        said = f"{len(rows)} cases finite, float32's gradient off by {worst:.1e}"
        return Found(said, all(row["finite"] for row in rows), rows)

    job.check("float32 on the CPU", on_cpu)
    job.check("float16 (default)", lambda: compare("16-mixed"))
    job.check("float16, overflow", overflow)
    job.check("bfloat16", lambda: compare("bf16-mixed"))
    job.check("float32", lambda: compare("32"))
    job.check("objective against float64", against_float64)
    job.check("compiled", lambda: compare("32" if job.tiny else "16-mixed", compiled=True))


# ---- resume ----------------------------------------------------------------------------------------------------------


def resume(job: Job) -> None:
    """Check that a run resumed after its first epoch is bitwise equal to the same run without interruption."""

    def compare(name: str, package: str | None = None) -> Found:
        if package is not None and not data.importable(package):
            raise Skipped(f"{package} is not installed")
        torch.manual_seed(0)
        checkpoints = job.train(name) / "checkpoints"
        expected = shutil.copy(checkpoints / "last.ckpt", job.scratch / f"{name}.ckpt")
        for later in ("epoch-2.ckpt", "last.ckpt"):
            (checkpoints / later).unlink()
        torch.manual_seed(99)  # a new process starts with another random state
        job.train(name, f"ckpt='{checkpoints / 'epoch-1.ckpt'}'")
        different, tensors = _different(checkpoints / "last.ckpt", expected)
        return Found(f"{len(different)} of {tensors} tensors differ", not different, different)

    job.check("folder", lambda: compare("resume folder"))
    job.check("images on the device", lambda: compare("resume device"))
    job.check("LeJEPA", lambda: compare("resume lejepa", "lightly"))
    job.check("drop_path", lambda: compare("resume drop_path"))


def _different(found: Path, expected: Path) -> tuple[list[str], int]:
    """Return the largest differences between two checkpoints' weights and optimizer states, and the tensor count."""
    parts = ("state_dict", "optimizer_states")
    loaded = [torch.load(path, map_location="cpu", weights_only=True) for path in (found, expected)]
    (ours, shape), (theirs, other) = (tree_flatten({part: content[part] for part in parts}) for content in loaded)
    assert shape == other, "the checkpoints hold other entries"
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if isinstance(a, Tensor)]
    off = [float((a.double() - b.double()).abs().max()) for a, b in pairs if not torch.equal(a, b)]
    return [f"{value:.2g}" for value in sorted(off, reverse=True)], len(pairs)


# ---- processes -------------------------------------------------------------------------------------------------------


def processes(job: Job) -> None:
    """Compare each objective under DDP on one GPU with a process without DDP that holds the whole batch."""

    def compare(backend: str, number: int) -> Found:
        if backend == "nccl":
            job.needs_gpu()
        folder = job.scratch / f"{backend}-{number}"
        folder.mkdir()
        mp.spawn(_rank, args=(number, backend, job.device, str(folder)), nprocs=number)
        ranks = [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(number)]
        off = {}
        for name in precision.OBJECTIVES:
            expected = _weight_gradient(name, job.device, 0, 1)
            off[name] = max(float((rank[name] - expected).norm() / expected.norm()) for rank in ranks)
        return Found(f"gradients off by {max(off.values()):.1e} at most", max(off.values()) < 1e-9, off)

    job.check("NCCL, one process", lambda: compare("nccl", 1))
    job.check("gloo, two processes", lambda: compare("gloo", 2))


def _weight_gradient(name: str, device: str, rank: int, number: int) -> Tensor:
    torch.manual_seed(0)
    embeddings = views(64, 32)
    rows = 64 // number
    own = embeddings[:, rank * rows : (rank + 1) * rows].double().to(device)
    network: nn.Module = nn.Linear(32, 32).double().to(device)
    weight = network.weight
    if dist.is_initialized():
        network = DistributedDataParallel(network)
    RadialVICRegLoss(**precision.OBJECTIVES[name])(*network(own.flatten(0, 1)).chunk(2)).backward()
    return weight.grad.cpu()  # type: ignore[union-attr,operator,no-any-return]


def _rank(rank: int, number: int, backend: str, device: str, folder: str) -> None:
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(0)
    dist.init_process_group(backend, store=dist.FileStore(f"{folder}/store", number), rank=rank, world_size=number)
    # Run collectives even with a single process.
    for module in (distributed, objective_module):
        module.is_distributed = dist.is_initialized  # type: ignore[assignment]
    found = {name: _weight_gradient(name, device, rank, number) for name in precision.OBJECTIVES}
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


# ---- waits -----------------------------------------------------------------------------------------------------------


class Watch(pl.Callback):
    """Raise if the host waits for the GPU between the ends of two steps, including data loading."""

    def __init__(self) -> None:
        self.steps = 0

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.steps += trainer.global_step in WATCHED
        torch.cuda.set_sync_debug_mode("error" if trainer.global_step + 1 in WATCHED else "default")


def waits(job: Job) -> None:
    """Run training steps under `torch.cuda.set_sync_debug_mode("error")`; float16's scaler waits by design."""

    def watch(name: str) -> Found:
        job.needs_gpu()
        watched = Watch()
        try:
            job.train(name, "log_every_n_steps=1000", callbacks=[watched])
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return Found(f"{watched.steps} steps without waiting", watched.steps == len(WATCHED))

    for name in ("waits folder", "waits device", "waits VICReg"):
        job.check(name.removeprefix("waits "), lambda name=name: watch(name))


# ---- speed -----------------------------------------------------------------------------------------------------------


def speed(job: Job) -> None:
    """Time objective and step against solo-learn, eager and compiled; measure images/s and memory of runs."""

    @functools.cache
    def rates() -> dict[str, float]:
        return objective.machine_rates(job.device)

    def time_objective(count: int, dim: int, compiled: bool = False) -> Found:
        if compiled:
            job.needs_gpu()
        row = objective.measure(
            *(count, dim, torch.float32, job.device, rates()),
            seconds=0 if job.tiny else 3,
            repeats=15,
            compiled=compiled,
        )
        print(objective.table([row]))
        times = {name: f"{1e3 * timing['median']:.3g}" for name, timing in row["seconds"].items()}
        return Found(", ".join(f"{name} {value} ms" for name, value in times.items()), values=row)

    def time_step(compiled: bool) -> Found:
        dim, batch, network, seconds = (16, 8, "tiny", 0) if job.tiny else (2048, 256, "resnet18", 8)
        options = argparse.Namespace(workers=0, batch_size=batch, block=2 if job.tiny else 10, device=job.device)
        options.seconds, options.ready, options.compile = seconds, True, job.backend if compiled else None
        found = step.compare_steps(job.images("train"), dim, network, options)
        times = {name: f"{1e3 * timing.median:.3g} ms" for name, timing in found.items()}
        return Found(", ".join(f"{name}: {value}" for name, value in times.items()), values=objective.as_plain(found))

    def whole_run(name: str) -> Found:
        config = run_config(compose(RUNS[name].config_name, job.overrides(name)))
        cost = json.loads((job.train(name) / "results.json").read_text())["cost"]
        rate = config.optimizer.batch_size / cost["step_seconds"]
        memory = "" if job.tiny else f"; steps {cost['peak_memory_mb']} MB, monitor {cost['radii_memory_mb']} MB"
        return Found(f"{rate:,.0f} images/s{memory}", values={**cost, "images_per_second": rate})

    for name in ("speed folder", "speed device"):
        job.check(name.removeprefix("speed "), lambda name=name: whole_run(name))
    for count, dim in [(8, 16)] if job.tiny else SIZES:
        job.check(f"objective {count} x {dim}", lambda count=count, dim=dim: time_objective(count, dim))
    job.check("step", lambda: time_step(compiled=False))
    # Compiled variants come last, since compilation takes most of their time.
    job.check("objective, compiled", lambda: time_objective(*COMPILED_SIZE, compiled=True))
    job.check("step, compiled", lambda: time_step(compiled=True))


# ---- DALI ------------------------------------------------------------------------------------------------------------


def dali(job: Job) -> None:
    """Train an epoch of solo-learn's script with DALI's pipeline, and with its own."""

    def train(name: str) -> Found:
        if name == "dali":
            job.needs_gpu()
        for module in ("solo", "nvidia.dali") if name == "dali" else ("solo",):
            if not data.importable(module):
                raise Skipped(f"{module} is not installed")
        results = json.loads((job.train_with_script(name) / "results.json").read_text())
        seconds = results["cost"]["step_seconds"]
        return Found(f"{results['steps']} steps of {1e3 * seconds:.3g} ms", results["status"] == "finished")

    job.check("solo-learn's script", lambda: train("dali image_folder"))
    job.check("the same with DALI", lambda: train("dali"))


# ---- study -----------------------------------------------------------------------------------------------------------


class Epochs(pl.Callback):
    """Report the seconds of all epochs after each epoch."""

    def __init__(self, tell: Callable[[list[float]], object]) -> None:
        self.tell, self.ends = tell, list[float]()

    def on_train_epoch_start(self, *_: Any) -> None:
        self.ends = self.ends or [time.monotonic()]

    def on_train_epoch_end(self, *_: Any) -> None:
        self.ends.append(time.monotonic())
        self.tell([later - earlier for earlier, later in itertools.pairwise(self.ends)])


def sweep_hours(epoch_seconds: float, overhead: float) -> dict[str, float]:
    """Estimate the hours of each sweep of docs/study.md on one such GPU from the cost of one method's run.

    LeJEPA and VISReg are assumed to be as fast as the others, although their losses cost more.
    """
    hours = {}
    for name in SWEEPS:
        runs = load_sweep(name).runs()
        epochs = int(compose(runs[0].config_name, runs[0].overrides).max_epochs)
        hours[name] = len(runs) * (overhead + epochs * epoch_seconds) / 3600
    return hours


def study(job: Job) -> None:
    """Train one cell of the full study's short sweep, and estimate the time of the sweeps, updated after each epoch."""
    began, count = time.monotonic(), sum(1 for _ in job.images("train", small=False).glob("*/*"))
    name = "cell and hours"

    def found(epochs: list[float], overhead: float = 0.0) -> Found:
        epoch = statistics.median(epochs) * STUDY_IMAGES / count
        hours = sweep_hours(epoch, overhead)
        said = f"{len(epochs)} epochs of {epoch:.3g} s for 50,000 images; "
        said += ", ".join(f"{sweep} {value:.3g} h" for sweep, value in hours.items())
        return Found(said, values={"epoch_seconds": epoch, "overhead_seconds": overhead, "hours": hours})

    def train() -> Found:
        seen: list[list[float]] = []

        def tell(epochs: list[float]) -> None:
            seen.append(epochs)
            job.note(name, found(epochs), began)

        folder = job.train("study", callbacks=[Epochs(tell)])
        results = json.loads((folder / "results.json").read_text())
        last = found(seen[-1], overhead=max(0.0, time.monotonic() - began - sum(seen[-1])))
        return Found(last.said, results["status"] == "finished", last.values)

    job.check(name, train)


STAGES: dict[str, Callable[[Job], None]] = {
    "images": images,
    "tests": tests,
    "precision": precisions,
    "resume": resume,
    "processes": processes,
    "waits": waits,
    "speed": speed,
    "dali": dali,
    "study": study,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), required=True)
    parser.add_argument("--images", type=Path)
    options = parser.parse_args(arguments)
    os.chdir(options.scratch)  # packages may write files to the working directory
    STAGES[options.stage](Job(options.stage, options.out, options.scratch, options.device, options.images))


if __name__ == "__main__":
    main()
