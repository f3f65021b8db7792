"""Does a long run leak? Memory and open files over 2,000 training steps, on each host.

    python -m benchmarks.reliability [--steps 2000] [--hosts standalone solo]

A small vision transformer on 16-pixel noise, 100 steps an epoch, with two data-loading processes, validation, every
probe, the radius monitor and checkpoints after each epoch. Prints a table and writes it to benchmarks/results.

The resident memory of a process grows for a while by fragments that the allocator keeps; a leak shows in what is in
use, by glibc's own count, and in the number of Python's objects.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
from PIL import Image

from benchmarks.runner import markdown_table, save
from radial_vicreg import cli
from radial_vicreg.solo.detect import choose_host
from radial_vicreg.train import run as train

STEPS_PER_EPOCH, BATCH, CLASSES = 100, 16, 4
#: Columns of the table, shown after the warm-up and at the end.
_SHOWN = {
    "memory": "resident, MiB",
    "in_use": "in use, MiB",
    "objects": "Python objects",
    "files": "open files",
    "children": "children",
}
_WARM_EPOCHS = 4  # until caches are filled: quantiles, matplotlib's fonts, the allocator's pools


class _Heap(ctypes.Structure):
    """glibc's ``struct mallinfo2``."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def bytes_in_use() -> float:
    """Return the bytes allocated from the C heap and not freed, over all threads; NaN without glibc 2.33."""
    count = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if count is None:
        return float("nan")
    count.restype = _Heap
    heap = count()
    return float(heap.uordblks + heap.hblkhd)


class Usage(pl.Callback):
    """Record memory in MiB, Python objects, open files and live child processes of this process after each epoch."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.epochs.append(
            {
                "step": trainer.global_step,
                "memory": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
                "in_use": bytes_in_use() / 2**20,
                "objects": len(gc.get_objects()),
                "files": len(os.listdir("/proc/self/fd")),
                "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
            }
        )


def images(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for part, count in (("train", STEPS_PER_EPOCH * BATCH), ("val", 64)):
        for index in range(count):
            where = folder / part / f"class_{index % CLASSES}"
            where.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(where / f"{index}.png")
    return folder


def long_run(host: str, steps: int, folder: Path) -> list[dict[str, float]]:
    usage, real = Usage(), train.build_trainer

    def build(*arguments: Any, **keywords: Any) -> pl.Trainer:
        trainer = real(*arguments, **keywords)
        trainer.callbacks.append(usage)  # type: ignore[attr-defined]
        return trainer

    train.build_trainer = build
    try:
        status = cli.main(
            [
                *(
                    "pretrain",
                    "radialvicreg/dataset=folder",
                    "radialvicreg/backbone=vit_tiny",
                    "radialvicreg/optimizer=adamw",
                ),
                *(f"host={host}", f"runs_dir={folder / host}", f"max_epochs={steps // STEPS_PER_EPOCH}"),
                *(f"data.train_path={folder / 'train'}", f"data.val_path={folder / 'val'}", "data.num_workers=2"),
                *("augment.crop_size=16", f"optimizer.batch_size={BATCH}", "scheduler.warmup_epochs=2"),
                *("method_kwargs.proj_hidden_dim=32", "method_kwargs.proj_output_dim=32"),
                *("probes.encoder_knn=true", "probes.knn_bank=512", "diagnostics.every_n_epochs=1"),
                *("accelerator=cpu", "precision=32", "loggers.tensorboard=true"),
            ]
        )
    finally:
        train.build_trainer = real
    if status != 0:
        raise SystemExit(f"the run on host {host} ended with exit status {status}")
    return usage.epochs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--hosts", nargs="+", default=None, help="hosts to run (default: the installed ones)")
    options = parser.parse_args()
    installed = ["standalone"] + (["solo"] if choose_host("auto")[0] == "solo" else [])
    found: dict[str, Any] = {}
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = images(Path(temporary))
        for host in options.hosts or installed:
            epochs = long_run(host, options.steps, folder)
            settled = epochs[min(_WARM_EPOCHS, len(epochs) // 2) :]
            steps = [epoch["step"] for epoch in settled]
            slope = 1000 * float(np.polyfit(steps, [epoch["in_use"] for epoch in settled], 1)[0])
            found[host] = {"epochs": epochs, "mib_in_use_per_1000_steps": slope}
            both = [f"{settled[0][key]:.0f} / {settled[-1][key]:.0f}" for key in _SHOWN]
            rows.append([host, int(steps[-1]), *both, f"{slope:+.2f}"])
    header = ["Host", "Steps", *_SHOWN.values(), "in use, MiB per 1,000 steps"]
    table = markdown_table(header, rows)
    print(table)
    print(save("reliability", "Long runs", {"python -m benchmarks.reliability": table}, found))


if __name__ == "__main__":
    main()
