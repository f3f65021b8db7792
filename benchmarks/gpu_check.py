"""A certificate of twelve minutes for one GPU: everything of this package that only a GPU can show.

    python -m benchmarks.gpu_check --out OUT [--images cifar10.tar.xz] [--device cuda|cpu] [--stages NAME ...]
        [--minutes 12]

The script first lists all requirements of `setup.cfg` that this machine lacks, and the commands that transfer them as
wheels; it downloads nothing. Then every stage of `benchmarks/gpu_stages.py` runs in a separate process with its own
time limit. `OUT/gpu_check.json` and `.md` are written after each stage. `OUT/STAGE.json` contains each check as soon as
it is done, and `OUT/STAGE.log` the whole output, so that a stage that fails or reaches its limit keeps its results; the
next stage then starts.

The images are an archive or a folder with train/CLASS/*.jpg and test/CLASS/*.jpg; by default, random images are used.
On a CPU, all sizes are tiny and checks that need a GPU are skipped. This tests the script, not the speed.
"""

from __future__ import annotations

import argparse
import configparser
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: Time limits of the stages in seconds, in order of execution; twelve minutes in total.
LIMITS = {
    "images": 40.0,
    "tests": 80.0,
    "precision": 120.0,
    "resume": 100.0,
    "processes": 40.0,
    "waits": 40.0,
    "speed": 180.0,
    "dali": 30.0,
    "study": 90.0,
}
#: Packages that single checks need in addition; without them, these checks are skipped.
OPTIONAL = ("pytest", "hypothesis", "lightly", "solo", "nvidia.dali")

STAGE_COMMAND = [sys.executable, "-m", "benchmarks.gpu_stages"]

CUT = "STOPPED"
FAILED = "FAILED"


def missing_requirements(setup: Path = ROOT / "setup.cfg") -> list[str]:
    """Return the requirements in `setup.cfg` that are not installed, or are installed in another version."""
    parser = configparser.ConfigParser()
    parser.read(setup, encoding="utf-8")
    lines = parser["options"]["install_requires"].split("\n")
    return [line for line in map(str.strip, lines) if line and not _installed(line)]


def _installed(requirement: str) -> bool:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None, requirement
    try:
        version = metadata.version(match[0])
    except metadata.PackageNotFoundError:
        return False
    try:
        from packaging.requirements import Requirement
    except ImportError:  # packaging is a listed requirement itself
        return True
    return Requirement(requirement).specifier.contains(version, prereleases=True)


def how_to_carry(missing: list[str]) -> str:
    """Return the commands to run on a machine with a network, and on this one."""
    listed = " ".join(f"'{requirement}'" for requirement in missing)
    return (
        f"{len(missing)} requirements are missing: {', '.join(missing)}\n"
        "Build their wheels on a machine with network access, the same Python and platform, and copy the folder here:\n"
        f"  python -m pip wheel --wheel-dir wheels {listed}\n"
        f"  python -m pip install --no-index --find-links wheels {listed}"
    )


def run_stage(name: str, seconds: float, options: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Run a stage in a separate process, and return its checks, partial if it reached the time limit."""
    notes = options.out / f"{name}.json"
    notes.unlink(missing_ok=True)
    places = ["--out", str(options.out), "--scratch", str(scratch), "--device", options.device]
    source = ["--images", str(options.images)] if options.images else []
    command = [*STAGE_COMMAND, name, *places, *source]
    # Bitwise reproducibility needs a fixed cuBLAS workspace, which is configured when cuBLAS starts.
    environment = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONUNBUFFERED": "1"}
    began, status = time.monotonic(), "done"
    with (options.out / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            if process.wait(timeout=seconds):
                status = f"{FAILED}: exit status {process.returncode}, see {name}.log"
        except subprocess.TimeoutExpired:
            status = f"{CUT} after {seconds:.0f} s"
        finally:  # including its child processes: loaders and ranks
            _end_group(process)
    checks = json.loads(notes.read_text()) if notes.is_file() else {}
    return {"status": status, "seconds": round(time.monotonic() - began, 1), "checks": checks}


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def table(content: dict[str, Any]) -> str:
    """Make a table with one row per check, and one per stage that did not finish."""
    from benchmarks.runner import markdown_table

    rows: list[list[str]] = []
    for name, stage in content["stages"].items():
        for what, check in stage["checks"].items():
            rows.append([name, what, check["outcome"], " ".join(check["said"].split())[:240]])
        if stage["status"] != "done":
            rows.append([name, "(the stage)", stage["status"], ""])
    return markdown_table(["stage", "check", "outcome", "found"], rows)


def write(content: dict[str, Any], out: Path) -> str:
    """Write both files and return the table."""
    from benchmarks.runner import headline
    from radial_vicreg.io.files import write_json

    write_json(out / "gpu_check.json", content)
    text = table(content)
    seconds = sum(stage["seconds"] for stage in content["stages"].values())
    title = f"# GPU check on {content['machine']['device']}"
    about = (
        f"{headline(content['machine'])} {seconds:.0f} s; not installed: {', '.join(content['absent']) or 'nothing'}."
    )
    (out / "gpu_check.md").write_text(f"{title}\n\n{about}\n\n{text}\n", encoding="utf-8")
    return text


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--images", type=Path, help="archive or folder with train/ and test/; default: random images")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--stages", nargs="+", choices=LIMITS, default=list(LIMITS), metavar="NAME")
    parser.add_argument(
        "--minutes", type=float, default=12.0, help="time for all checks; each check's limit scales with it"
    )
    options = parser.parse_args(arguments)
    if options.images is not None and not options.images.exists():
        parser.error(f"--images {options.images} does not exist")
    options.out = options.out.resolve()
    options.images = options.images and options.images.resolve()
    return options


def _absent(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:  # the parent package is missing
        return True


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if missing := missing_requirements():
        print(how_to_carry(missing))
        return 2
    import torch

    from benchmarks.runner import machine

    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch sees no GPU; --device cpu shows whether the script works")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    absent = [module for module in OPTIONAL if _absent(module)]
    content: dict[str, Any] = {"machine": machine(options.device), "absent": absent, "stages": {}}
    share = 60 * options.minutes / sum(LIMITS.values())
    with tempfile.TemporaryDirectory() as scratch:
        for name in ["images", *(stage for stage in LIMITS if stage in options.stages and stage != "images")]:
            print(f"== {name}, {share * LIMITS[name]:.0f} s at most", flush=True)
            content["stages"][name] = run_stage(name, share * LIMITS[name], options, Path(scratch))
            text = write(content, options.out)
    print(text)
    outcomes = [check["outcome"] for stage in content["stages"].values() for check in stage["checks"].values()]
    return int(FAILED in outcomes or any(stage["status"] != "done" for stage in content["stages"].values()))


if __name__ == "__main__":
    sys.exit(main())
