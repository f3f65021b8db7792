"""Everything that needs a GPU, in one run of a few minutes that goes on whatever fails.

    python -m benchmarks.gpu_check --images cifar10.tar.xz --out OUT [--budget 330] [--device cuda]

Stages, each with its share of the budget: the objective timed with CUDA events; half precision against float64; what
the study of docs/study.md would cost at full scale; VICReg and Radial-VICReg trained on real images by `radial-vicreg
pretrain` itself (small stem, channels_last, bf16, images on the device); with time left, d 2048 with the paper's LARS
and both readings of the cross-entropy's weight, the objective under `torch.compile`, and the tests that need a GPU.
The images are an archive or a folder of train/CLASS/*.jpg and test/CLASS/*.jpg. Needs torch, torchvision, lightning,
timm, scikit-learn, scipy, matplotlib, rich, hydra-core; this package may be on PYTHONPATH only.

OUT gets `gpu_check.json` (written anew after each stage), `gpu_check.md`, `objective-<GPU>.json` and `.md` and the
figures of the radii. Runs and unpacked images live in a temporary folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from benchmarks import objective, precision
from benchmarks.runner import machine, save
from benchmarks.training_lines import TimedLines, summary_table
from radial_vicreg.files import write_json

ROOT = Path(__file__).parents[1]
#: Shares of the whole budget; training takes what is left, the later stages what it leaves.
OBJECTIVE_SHARE, PRECISION_SHARE = 0.12, 0.06
#: Shares of the time left when the stage begins. Runs are planned from a calibration, which can be off.
TRAINING_SHARE, WIDE_SHARE = 0.65, 0.6
#: Seconds that a run spends beside its epochs until the calibration has measured them.
UNKNOWN_OVERHEAD = 20.0
#: Seconds that must be left for `torch.compile`, most of which it compiles.
COMPILE_SECONDS = 40.0
#: Two, so that an epoch can be timed between the ends of two.
LEAST_EPOCHS = 2
PAPER_EPOCHS = 400
OBJECTIVE_SIZES = [(256, 512), (256, 2048), (256, 8192), (128, 8192), (1024, 2048), (4096, 8192)]
GPU_TESTS = (
    "tests/losses/test_losses_objective.py",
    "tests/train/test_guard.py",
    "tests/data/test_batch_augmentation.py",
    "tests/data/test_device_sets.py",
    "tests/reliability/test_precision.py",
)

STUDY_SWEEPS = ("study_full_short", "study_full_tune", "study_full")

#: What short runs need; no online heads, whose cost is not the method's.
SETTING = [
    "shared/dataset=folder",
    "optimizer.batch_size=256",
    "scheduler.warmup_epochs=1",
    "method_kwargs.small_image_stem=true",
    "data.format=device",
    "data.num_workers=8",
    "host=standalone",
    "strategy=auto",
    "diagnostics.every_n_epochs=0",
    "probes.projector_linear=false",
    "probes.encoder_mlp=false",
    "loggers.csv=false",
]
#: For a few epochs, instead of LARS and ten epochs of warm-up.
ADAMW = ["shared/optimizer=adamw", "optimizer.lr=1e-3"]
#: The paper's LARS at the smaller of its rates: with one epoch of warm-up, the rate then grows by as much a step as it
#: does to 0.3 with ten. A steeper warm-up diverges without the factor 1/d.
LARS = ["shared/optimizer=lars", "optimizer.lr=0.03"]
RUNS = {
    "VICReg": [*ADAMW, "shared/method=vicreg"],
    "Radial-VICReg": [*ADAMW, "method_kwargs.radial_ce_loss_weight=100"],
    "Radial-VICReg, centred": [*ADAMW, "method_kwargs.radial_ce_loss_weight=100", "method_kwargs.radial_center=true"],
}
WIDE_RUNS = {
    f"d 2048, radial_ce_normalize {value}": [
        *LARS,
        "method_kwargs.proj_output_dim=2048",
        "method_kwargs.radial_ce_loss_weight=1",
        "method_kwargs.radial_ent_loss_weight=0.1",
        f"method_kwargs.radial_ce_normalize={value}",
    ]
    for value in ("true", "false")
}


class Check:
    """The budget, what has been found, and where it is written."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.options, self.scratch = options, scratch
        self.device: str = options.device
        self.deadline = time.monotonic() + options.budget
        self.images: Path | None = None
        self.overhead, self.epoch_seconds = UNKNOWN_OVERHEAD, 0.0
        self.content: dict[str, Any] = {"machine": machine(self.device), "budget": options.budget, "stages": {}}

    def left(self) -> float:
        return self.deadline - time.monotonic()

    def stage(self, name: str, run: Callable[[], Any]) -> None:
        """Runs a stage; what it returns, or its error, goes into the file."""
        print(f"== {name} ({self.left():.0f} s left)", flush=True)
        began = time.monotonic()
        try:
            entry: dict[str, Any] = {"result": run()}
        except Exception as error:
            traceback.print_exc()
            entry = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        entry["seconds"] = round(time.monotonic() - began, 1)
        self.content["stages"][name] = entry
        write_json(self.options.out / "gpu_check.json", self.content)


def prepare(check: Check) -> dict[str, Any]:
    """Unpacks the images."""
    source: Path = check.options.images
    folder = source
    if source.is_file():
        folder = check.scratch / "images"
        shutil.unpack_archive(source, folder, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    counts = {split: sum(1 for _ in (folder / split).glob("*/*")) for split in ("train", "test")}
    if not all(counts.values()):
        raise ValueError(f"{source} holds {counts}; train/CLASS/* and test/CLASS/* are needed")
    check.images = folder
    return counts


def time_objective(check: Check) -> list[dict[str, Any]]:
    """Stage a."""
    sizes = check.options.sizes or OBJECTIVE_SIZES
    dtypes = [torch.float32] if check.device == "cpu" else [torch.float32, torch.bfloat16]
    seconds = OBJECTIVE_SHARE * check.options.budget / len(sizes) / len(dtypes) / 2
    rates = objective.machine_rates(check.device)
    rows = [
        objective.measure(count, dim, dtype, check.device, rates, seconds, repeats=15)
        for count, dim in sizes
        for dtype in dtypes
    ]
    print(objective.table(rows))
    content = {"rates": rates, "rows": rows}
    save("objective", objective.title(), objective.tables(rows, rates), content, check.device, check.options.out)
    return rows


def check_precision(check: Check) -> list[dict[str, Any]]:
    """Stage b."""
    rows = precision.measure(check.device, seconds=PRECISION_SHARE * check.options.budget)
    print(precision.table(rows))
    return rows


def train(check: Check, overrides: list[str], epochs: int, figure: str | None = None) -> dict[str, Any]:
    """One run of the product and the linear probe of its frozen features."""
    from radial_vicreg.compose import compose, run_config
    from radial_vicreg.probes.offline import probe_run
    from radial_vicreg.train.run import pretrain

    if check.images is None:
        raise RuntimeError("there are no images: see the stage before")
    began = time.monotonic()
    if check.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    hardware = ["accelerator=cpu"] if check.device == "cpu" else ["accelerator=gpu", "precision=bf16-mixed"]
    places = [
        f"data.train_path={check.images / 'train'}",
        f"data.val_path={check.images / 'test'}",
        f"runs_dir={check.scratch / 'runs'}",
        f"max_epochs={epochs}",
        f"checkpoint.frequency={epochs}",
    ]
    config = run_config(compose("radialvicreg", [*SETTING, *overrides, *hardware, *places, *check.options.override]))
    lines = TimedLines(sys.stdout)
    with redirect_stdout(lines):  # type: ignore[type-var]
        folder = pretrain(config)
    _, probed = probe_run(folder, "linear", workers=config.data.num_workers)
    if check.device == "cuda":
        torch.cuda.empty_cache()
    if figure and (folder / "radii.png").is_file():
        shutil.copy(folder / "radii.png", check.options.out / f"radii-{figure}.png")
    return _summary(check, folder, probed, lines.moments, epochs, time.monotonic() - began)


def _summary(
    check: Check, folder: Path, probed: dict[str, Any], moments: list[float], epochs: int, seconds: float
) -> dict[str, Any]:
    results = json.loads((folder / "results.json").read_text())
    final = (results["radii"]["final"] or {}).get("eval", {})
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    epoch = statistics.median(gaps) if gaps else None
    images = check.content["stages"]["images"]["result"]["train"]
    return {
        "status": results["status"],
        "epochs": results["epochs"],
        "linear_top1": probed["test"]["top1"],
        "w1_chi": final.get("w1_chi"),
        "w1_chi_initial": (results["radii"]["initial"] or {}).get("eval", {}).get("w1_chi"),
        "radius_mean": final.get("radius_mean"),
        "radius_std": final.get("radius_std"),
        "embedding_mean_norm": final.get("embedding_mean_norm"),
        "effective_rank": final.get("effective_rank"),
        "seconds": seconds,
        "seconds_an_epoch": epoch,
        "seconds_beside_epochs": None if epoch is None else seconds - epochs * epoch,
        "images_a_second": None if not epoch else images / epoch,
        "minutes_for_400_epochs": None if epoch is None else epoch * PAPER_EPOCHS / 60,
        "peak_gpu_bytes": torch.cuda.max_memory_allocated() if check.device == "cuda" else None,
        "history": results["history"],
        "seed": results.get("seed"),
    }


def calibrate(check: Check) -> dict[str, Any]:
    """A run of two epochs: what an epoch costs, and what a run costs beside its epochs."""
    found = train(check, next(iter(RUNS.values())), epochs=LEAST_EPOCHS)
    check.epoch_seconds, check.overhead = found["seconds_an_epoch"], max(found["seconds_beside_epochs"], 0.0)
    return found


def planned_epochs(check: Check, seconds: float) -> int:
    """Epochs that a run of ``seconds`` can have."""
    if not check.epoch_seconds:
        raise RuntimeError("the calibration failed: see the stage before")
    return int((seconds - check.overhead) / check.epoch_seconds)


def train_all(check: Check, runs: dict[str, list[str]], seconds: float) -> None:
    """A stage for each run, with as many epochs as its part of ``seconds`` allows."""
    for name, overrides in runs.items():
        share = min(seconds / len(runs), check.left())

        def run(overrides: list[str] = overrides, name: str = name, share: float = share) -> dict[str, Any]:
            epochs = planned_epochs(check, share)
            if epochs < LEAST_EPOCHS:
                return {"skipped": f"{share:.0f} s for it, {check.overhead:.0f} s beside its epochs"}
            return train(check, overrides, epochs, re.sub(r"\W+", "-", name.lower()) if runs is RUNS else None)

        check.stage(name, run)


def study_cost(check: Check) -> dict[str, float]:
    """Hours that each sweep of docs/study.md at full scale would take on this card, by the calibration's epochs.

    LeJEPA and VISReg, whose losses cost more, are taken for as fast as the others.
    """
    from radial_vicreg.compose import compose
    from radial_vicreg.sweeps.grid import load_sweep

    if not check.epoch_seconds:
        raise RuntimeError("the calibration failed: see the stage before")
    hours = {}
    for name in STUDY_SWEEPS:
        runs = load_sweep(name).runs()
        epochs = int(compose(runs[0].config_name, runs[0].overrides).max_epochs)
        hours[name] = round(len(runs) * (check.overhead + epochs * check.epoch_seconds) / 3600, 3)
    print("hours of the study: " + ", ".join(f"{name} {value:g}" for name, value in hours.items()))
    return hours


def time_compiled(check: Check) -> dict[str, Any]:
    """The first size of the objective with and without `torch.compile`."""
    if check.left() < COMPILE_SECONDS:
        return {"skipped": f"{check.left():.0f} s left"}
    count, dim = (check.options.sizes or OBJECTIVE_SIZES)[0]
    rates = objective.machine_rates(check.device)
    row = objective.measure(count, dim, torch.float32, check.device, rates, seconds=5, repeats=15, compiled=True)
    print(objective.table([row]))
    return row


def run_gpu_tests(check: Check) -> dict[str, Any]:
    """The tests that are skipped without a GPU."""
    if importlib.util.find_spec("pytest") is None:
        return {"skipped": "pytest is not installed"}
    seconds = min(check.left(), 120.0)
    if seconds < 15:
        return {"skipped": f"{seconds:.0f} s left"}
    files = [name for name in GPU_TESTS if (ROOT / name).is_file()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-k", "gpu or cuda", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    print(done.stdout[-2000:])
    return {"returncode": done.returncode, "tail": done.stdout[-2000:]}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, required=True, help="archive or folder with train/ and test/")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=330.0, help="seconds for everything")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--sizes", nargs="+", type=objective.size, metavar="NxD", help="of the objective")
    parser.add_argument("--override", nargs="*", default=[], metavar="KEY=VALUE", help="of the configuration")
    options = parser.parse_args(arguments)
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        check = Check(options, Path(scratch))
        check.stage("images", lambda: prepare(check))
        check.stage("objective", lambda: time_objective(check))
        check.stage("precision", lambda: check_precision(check))
        check.stage("calibration", lambda: calibrate(check))
        check.stage("study", lambda: study_cost(check))
        train_all(check, RUNS, TRAINING_SHARE * check.left())
        train_all(check, WIDE_RUNS, WIDE_SHARE * check.left())
        check.stage("torch.compile", lambda: time_compiled(check))
        check.stage("tests", lambda: run_gpu_tests(check))
    table = summary_table(check.content)
    print(table)
    hours = check.content["stages"]["study"].get("result", {})
    study = "".join(f"- `{name}`: {value:g} h\n" for name, value in hours.items())
    if study:
        study = f"\nThe study of docs/study.md at full scale, estimated by the calibration's epochs:\n\n{study}"
    title = f"# GPU check on {check.content['machine']['device']}"
    (options.out / "gpu_check.md").write_text(f"{title}\n\n{table}\n{study}")
    return check.content


if __name__ == "__main__":
    main()
