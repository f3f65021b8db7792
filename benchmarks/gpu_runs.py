"""Trainings of the stages of `benchmarks.gpu_check`, and the job that runs checks and writes their results."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import lightning.pytorch as pl

from benchmarks.gpu_check import FAILED, ROOT
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import RunData
from radial_vicreg.io.files import write_json
from radial_vicreg.solo.detect import find_solo_learn
from radial_vicreg.sweeps import load_sweep
from radial_vicreg.train.run import Host, Parts, build_standalone, pretrain

SWEEPS = ("study_full_short", "study_full_tune", "study_full")

#: Overrides for runs of a few steps on small images, without online heads.
_SHORT = [
    "radialvicreg/dataset=folder",
    "radialvicreg/optimizer=adamw",
    "optimizer.lr=1e-3",
    "optimizer.batch_size=128",
    "scheduler.warmup_epochs=0",
    "max_epochs=1",
    "strategy=auto",
    "probes.projector_linear=false",
    "probes.encoder_mlp=false",
]
_QUIET = ["diagnostics.enabled=false", "checkpoint.enabled=false", "loggers.csv=false", "host=standalone"]
_TWO_EPOCHS = ["max_epochs=2", "checkpoint.keep_prev=true", "diagnostics.enabled=false", "host=standalone"]
_VIT = ["radialvicreg/backbone=vit_tiny", "+backbone.kwargs={drop_path_rate:0.5,img_size:32,patch_size:4}"]
_SPEED = ["optimizer.batch_size=256", "method_kwargs.small_image_stem=true", "host=standalone", "data.num_workers=8"]
_CELL = load_sweep(SWEEPS[0]).runs()[1]


class Run(NamedTuple):
    """A training; :meth:`Job.overrides` adds the device and the images."""

    config_name: str
    overrides: Sequence[str]


#: All trainings by name.
RUNS: dict[str, Run] = {
    name: Run("radialvicreg", [*_SHORT, *overrides])
    for name, overrides in {
        **{f"precision {kind}": [*_QUIET, f"precision={kind}"] for kind in ("32", "16-mixed", "bf16-mixed")},
        "resume folder": [*_TWO_EPOCHS, "+deterministic=warn"],
        "resume device": [*_TWO_EPOCHS, "data.format=device", "+deterministic=warn"],
        "resume lejepa": [*_TWO_EPOCHS, "radialvicreg/method=lejepa", "+deterministic=warn"],
        "resume drop_path": [*_TWO_EPOCHS, *_VIT, "+deterministic=warn"],
        "waits folder": [*_QUIET, "precision=bf16-mixed"],
        "waits device": [*_QUIET, "precision=bf16-mixed", "data.format=device", "radialvicreg/optimizer=lars"],
        "waits VICReg": [*_QUIET, "precision=bf16-mixed", "data.format=device", "radialvicreg/method=vicreg"],
        "speed folder": _SPEED,
        "speed device": [*_SPEED, "data.format=device"],
        "dali": ["data.format=dali"],
        "dali image_folder": ["data.format=image_folder"],
    }.items()
} | {"study": Run(_CELL.config_name, [*_CELL.overrides, "max_epochs=3", "scheduler.warmup_epochs=1"])}

#: Sizes on a CPU, where only the code paths are tested.
_TINY = ["method_kwargs.proj_hidden_dim=64", "method_kwargs.proj_output_dim=64", "optimizer.batch_size=16"]
_TINY_RESNET = ["backbone.name=timm:test_resnet"]
_TINY_VIT = ["backbone.kwargs.patch_size=16", "+backbone.kwargs.depth=2"]


class Skipped(Exception):
    """A check cannot run on this machine; the message is the reason."""


class Found(NamedTuple):
    """Result of a check.

    Attributes:
        said: text for the table.
        ok: whether the check passed; None for a measurement.
        values: values for the JSON file.
    """

    said: str
    ok: bool | None = None
    values: Any = None


class Job:
    """Device and folders of a stage, with the results so far."""

    def __init__(self, stage: str, out: Path, scratch: Path, device: str, images: Path | None = None) -> None:
        self.stage, self.out, self.scratch, self.device, self.source = stage, out, scratch, device, images
        self.tiny = device == "cpu"
        self.checks: dict[str, dict[str, Any]] = {}

    def check(self, what: str, call: Callable[[], Found]) -> None:
        """Run a check and write its result, also if it fails."""
        print(f"-- {what}", flush=True)
        began = time.monotonic()
        try:
            self.note(what, call(), began)
        except Skipped as reason:
            self.note(what, Found(""), began, outcome=f"skipped: {reason}")
        except Exception as error:
            traceback.print_exc()
            self.note(what, Found(f"{type(error).__name__}: {error}", False, traceback.format_exc()), began)

    def note(self, what: str, found: Found, began: float, outcome: str | None = None) -> None:
        """Write the result of a check, which may be preliminary."""
        outcome = outcome or {None: "measured", True: "passed", False: FAILED}[found.ok]
        seconds = round(time.monotonic() - began, 1)
        self.checks[what] = {"outcome": outcome, "said": found.said, "seconds": seconds, "values": found.values}
        print(f"   {outcome} {found.said}", flush=True)
        write_json(self.out / f"{self.stage}.json", self.checks)

    def needs_gpu(self) -> None:
        if self.device != "cuda":
            raise Skipped("no GPU")

    @cached_property
    def backend(self) -> str:
        """Backend of `torch.compile`; on a CPU, one without code generation, which would take a minute."""
        return "inductor" if self.device == "cuda" else "aot_eager"

    def images(self, split: str, small: bool = True) -> Path:
        return self.scratch / ("small" if small or self.tiny else "images") / split

    def overrides(self, name: str) -> list[str]:
        """Return the overrides of a run in this job; see :data:`RUNS`."""
        small = not name.startswith(("speed", "study"))
        network = _TINY_VIT if "drop_path" in name else [] if "dali" in name else _TINY_RESNET
        tiny = [*_TINY, "data.num_workers=0", *network]
        return [
            *RUNS[name].overrides,
            f"data.train_path={self.images('train', small)}",
            f"data.val_path={self.images('test', small)}",
            f"runs_dir={self.scratch / 'runs' / name.replace(' ', '-')}",
            f"accelerator={'cpu' if self.tiny else 'gpu'}",
            *(tiny if self.tiny else []),
        ]

    def train(
        self,
        name: str,
        *more: str,
        callbacks: Sequence[pl.Callback] = (),
        change: Callable[[pl.LightningModule], object] | None = None,
    ) -> Path:
        """Train a run as `radial-vicreg pretrain` does, with additional callbacks, and return its folder."""
        config = run_config(compose(RUNS[name].config_name, [*self.overrides(name), *more]))

        def build(prepared: RunConfig, images: RunData) -> Parts:
            parts = build_standalone(prepared, images)
            own = parts.model.configure_callbacks
            parts.model.configure_callbacks = lambda: [*callbacks, *own()]  # type: ignore[method-assign,misc,list-item]
            if change is not None:
                change(parts.model)
            return parts

        return pretrain(config, lambda _: Host("standalone", "benchmarks.gpu_check", build))

    def train_with_script(self, name: str) -> Path:
        """Train a run with solo-learn's own script, and return its folder."""
        location = find_solo_learn().location
        assert location is not None
        here = self.scratch / name.replace(" ", "-")
        here.mkdir()
        overrides = [override for override in self.overrides(name) if not override.startswith("runs_dir=")]
        command = [sys.executable, str(location.parent / "main_pretrain.py"), "--config-name", RUNS[name].config_name]
        hardware = ["precision=32"] if self.tiny else []
        paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(location.parent)])}
        subprocess.run([*command, *overrides, *hardware], cwd=here, env=paths, check=True)
        (results,) = here.glob("trained_models/*/*/results.json")
        return results.parent
