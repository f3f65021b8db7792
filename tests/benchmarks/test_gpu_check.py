"""The GPU check on a CPU: every stage leaves its mark, and a stage that fails does not take the others along."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import gpu_check
from radial_vicreg.compose import compose, run_config
from radial_vicreg.stability import stability_warnings

TRAININGS = [*gpu_check.RUNS, *gpu_check.WIDE_RUNS]
STAGES = ["images", "objective", "precision", "calibration", "study", *TRAININGS, "torch.compile", "tests"]
OVERRIDES = [
    "optimizer.batch_size=8",
    "method_kwargs.proj_hidden_dim=16",
    "method_kwargs.proj_output_dim=16",
    "data.num_workers=0",
]


@pytest.fixture
def images(image_folder: Callable[..., Path]) -> Path:
    image_folder("images/train", per_class=8)
    return image_folder("images/test", per_class=4).parent


def _run(images: Path, out: Path, budget: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(gpu_check, "OBJECTIVE_SIZES", [(8, 16)])
    monkeypatch.setattr(gpu_check, "GPU_TESTS", ("tests/train/test_guard.py",))
    monkeypatch.setattr(gpu_check.objective, "affordable", lambda name, *_: name in gpu_check.objective.OURS)
    monkeypatch.setattr(gpu_check.objective, "MATMUL_SIZE", {"cpu": 64})
    monkeypatch.setattr(gpu_check.precision, "SHAPES", ((8, 4),))
    options = ["--images", str(images), "--out", str(out), "--budget", str(budget), "--device", "cpu"]
    gpu_check.main([*options, "--override", *OVERRIDES])
    content: dict[str, Any] = json.loads((out / "gpu_check.json").read_text())
    return content


def test_a_failing_stage_is_recorded_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check.objective, "peak_extra_bytes", lambda call, device: 1)  # the profiler takes seconds
    content = _run(tmp_path / "missing", tmp_path / "out", budget=2.0, monkeypatch=monkeypatch)
    assert list(content["stages"]) == STAGES
    assert "train/CLASS/* and test/CLASS/* are needed" in content["stages"]["images"]["error"]
    assert "there are no images" in content["stages"]["calibration"]["error"]
    assert content["stages"]["objective"]["result"][0]["seconds"]
    assert "the calibration failed" in content["stages"]["study"]["error"]
    for name in ("torch.compile", "tests"):
        assert "skipped" in content["stages"][name]["result"]


def test_the_study_costs_its_runs_and_epochs() -> None:
    check = SimpleNamespace(epoch_seconds=3.6, overhead=36.0)
    hours = gpu_check.study_cost(check)  # type: ignore[arg-type]
    assert hours == {
        "study_full_short": pytest.approx(7 * (36 + 8 * 3.6) / 3600, abs=1e-3),
        "study_full_tune": pytest.approx(21 * (36 + 50 * 3.6) / 3600, abs=1e-3),
        "study_full": pytest.approx(35 * (36 + 400 * 3.6) / 3600, abs=1e-3),
    }


def test_the_pair_differs_in_the_factor_alone_and_has_the_papers_lars_within_its_stability() -> None:
    normalized, plain = (
        compose("radialvicreg", [*gpu_check.SETTING, *overrides, "data.train_path=."])
        for overrides in gpu_check.WIDE_RUNS.values()
    )
    assert (normalized.optimizer.name, normalized.method_kwargs.proj_output_dim) == ("lars", 2048)
    assert stability_warnings(run_config(plain), steps_per_epoch=50_000 // 256) == []
    assert (normalized.method_kwargs.radial_ce_normalize, plain.method_kwargs.radial_ce_normalize) == (True, False)
    normalized.method_kwargs.radial_ce_normalize = False
    assert normalized == plain


@pytest.mark.slow
def test_every_stage_runs_on_a_cpu(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, wide = "Radial-VICReg, centred", "d 2048, radial_ce_normalize false"
    monkeypatch.setattr(gpu_check, "RUNS", {run: gpu_check.RUNS[run]})
    monkeypatch.setattr(gpu_check, "WIDE_RUNS", {wide: gpu_check.WIDE_RUNS[wide]})
    monkeypatch.setattr(gpu_check, "planned_epochs", lambda check, seconds: 2)
    archive = shutil.make_archive(str(tmp_path / "images"), "xztar", images)
    content = _run(Path(archive), tmp_path / "out", budget=600.0, monkeypatch=monkeypatch)
    errors = {name: stage["error"] for name, stage in content["stages"].items() if "error" in stage}
    assert errors == {}
    for name in ("calibration", run, wide):
        result = content["stages"][name]["result"]
        assert result["status"] == "finished"
        assert 0 <= result["linear_top1"] <= 100
        assert result["w1_chi"] > 0
        assert result["radius_std"] > 0
        assert result["embedding_mean_norm"] > 0
        assert result["images_a_second"] > 0
    assert content["stages"]["study"]["result"]["study_full"] > content["stages"]["study"]["result"]["study_full_short"]
    assert "study_full_tune" in (tmp_path / "out" / "gpu_check.md").read_text()
    assert content["stages"]["images"]["result"] == {"train": 24, "test": 12}
    assert content["stages"]["torch.compile"]["result"]["seconds"]["compiled"]["median"] > 0
    assert (tmp_path / "out" / "radii-radial-vicreg-centred.png").is_file()
    assert all(row["finite"] for row in content["stages"]["precision"]["result"])
