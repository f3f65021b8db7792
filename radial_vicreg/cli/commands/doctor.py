"""``radial-vicreg doctor [--at DIR]``: what is installed, which host would be used, what a file system can do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import TypedDict

from packaging.requirements import Requirement

from radial_vicreg.cli.parser import Parser
from radial_vicreg.errors import RunFailed, UserError
from radial_vicreg.io.file_systems import ABILITIES, try_folder
from radial_vicreg.names.counts import counted
from radial_vicreg.solo.detect import choose_host, find_checkout, find_solo_learn, import_solo_learn

_PACKAGE = "radial-vicreg"
_GIB = 2**30


class Surroundings(TypedDict):
    """Devices and host that a process with PyTorch finds, see :func:`look`."""

    device: str
    host: str | None
    reason: str


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg doctor",
        description="Print what is installed, which host a training would use, and how to fix the rest; with --at, "
        "what the file system of a folder supports.",
        example="radial-vicreg doctor --at runs",
    )
    made.add_argument(
        "--at",
        metavar="DIR",
        type=Path,
        help="only test whether the file system of DIR supports runs, checkpoints and data",
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the report.

    Args:
        arguments: command line after ``doctor``.

    Returns:
        0 when at least one host can train, which holds whenever the package's requirements can be imported; with
        ``--at``, 0 when runs can be written to that folder. 1 otherwise.

    Raises:
        UserError: ``--at`` is not a folder.
    """
    parsed = parser().parse_args(list(arguments))
    if parsed.at is not None:
        return _print_place(parsed.at)
    from radial_vicreg.runs.provenance import git_commit, versions
    from radial_vicreg.solo.limits import knn_fails

    old = outdated()
    for name, found_version in versions().items():
        print(f"{name:<14} {found_version or 'missing: pip install ' + name}{old.pop(name, '')}")
    for name, remark in old.items():
        print(f"{name:<14}{remark}")
    found = _ask()
    solo = found["host"] == "solo"
    location = find_solo_learn().location
    commit = git_commit(location) if location and solo else None
    print(f"{'device':<14} {found['device']}")
    print(f"{'Hydra plug-in':<14} {_plugin()}")
    print(f"{'solo-learn':<14} {found['reason']}{f', commit {commit}' if commit else ''}")
    for extra, state in extras().items():
        print(f"{f'[{extra}]':<14} {state}")
    if solo and (reason := knn_fails()):
        print(f"{'kNN':<14} knn_eval and main_knn.py do not work: {reason}; use radial-vicreg probe RUN --probe knn")
    print(f"\nradial-vicreg pretrain would use the {found['host']} host." if found["host"] else "\nNo host can train.")
    return 0 if found["host"] else 1


def extras(package: str = _PACKAGE) -> dict[str, str]:
    """List the extras of a package according to its installed metadata.

    Args:
        package: name of the distribution.

    Returns:
        For each extra, ``yes``, or the requirements that are missing or have a wrong version and the command that
        installs them.
    """
    try:
        names = metadata(package).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return {"": f"unknown: {package} is not installed, only importable"}
    needed = [Requirement(line) for line in requires(package) or []]
    states = {}
    for extra in names:
        lacks = [
            problem
            for requirement in needed
            if requirement.marker is not None
            and requirement.marker.evaluate({"extra": extra})
            and not requirement.marker.evaluate({"extra": ""})
            and (problem := _problem(requirement))
        ]
        states[extra] = f"no ({', '.join(lacks)}): pip install '{package}[{extra}]'" if lacks else "yes"
    return states


def outdated(package: str = _PACKAGE) -> dict[str, str]:
    """List the requirements of a package that are installed in an unsupported version.

    Args:
        package: name of the distribution.

    Returns:
        For each name, the required version and the command that installs it; empty if the package is not installed.
    """
    try:
        needed = [Requirement(line) for line in requires(package) or []]
    except PackageNotFoundError:
        return {}
    always = [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    return {
        each.name: f" is not {each.specifier}: pip install '{each.name}{each.specifier}'"
        for each in always
        if (problem := _problem(each)) and not problem.endswith("is missing")
    }


def look() -> Surroundings:
    """Import PyTorch and solo-learn and report the device and the host; meant to run in a separate process.

    Returns:
        ``device``: one line; ``host`` and ``reason``: the result of :func:`~radial_vicreg.solo.detect.choose_host`, or
        a checkout of solo-learn in the working directory, which only some commands use.
    """
    import torch

    device = "CPU (PyTorch sees no GPU)"
    if torch.cuda.is_available():
        device = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    host, reason = choose_host("auto")
    if find_checkout(Path.cwd()) is not None:
        solo = import_solo_learn()
        reason = solo.reason
        if solo.usable:
            reason += ": the working directory, used by its own scripts, radial-vicreg solo and host=solo"
    return {"device": device, "host": host, "reason": reason}


def _print_place(folder: Path) -> int:
    """Print what a folder's file system supports, and the consequences of what it does not."""
    if not folder.is_dir():
        raise UserError(f"--at {folder} is not a folder; give one that exists")
    try:
        found = try_folder(folder)
    except OSError as error:
        raise RunFailed(f"no space left in {folder}: free some, then try again") from error
    width = max(len(ability.what) for ability in ABILITIES.values())
    for name, ability in ABILITIES.items():
        if "write" in found.refused and name != "write":
            state = "not tried"
        elif (reason := found.refused.get(name)) is None:
            state = "yes"
        else:
            state = f"no ({reason}): {ability.without}"
        print(f"{ability.what:<{width}}  {state}")
    print(f"{'free space':<{width}}  {shutil.disk_usage(folder).free / _GIB:.1f} GiB")
    if found.problem is None:
        print(f"\nRuns can be written to {folder}.")
        return 0
    print(f"\nNo run can be written to {folder}: train on a local disk and copy the finished run there.")
    return 1


def _ask() -> Surroundings:
    """Run :func:`look` in a child process with this ``sys.path``, so that a broken library does not end the report."""
    code = f"import json, sys; sys.path[:] = {sys.path!r}; from {__name__} import look; print(json.dumps(look()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        answer: Surroundings = json.loads(done.stdout.splitlines()[-1])  # the imports may print before it
        return answer
    told = (
        f"unknown: importing PyTorch ended with status {done.returncode}, {done.stderr.strip().rpartition(chr(10))[2]}"
    )
    return {"device": told, "host": None, "reason": told}


def _plugin() -> str:
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin

    reinstall = "reinstall radial-vicreg with pip in this environment"
    names = [plugin.__name__ for plugin in Plugins.instance().discover(SearchPathPlugin)]
    if "RadialVICRegSearchPath" not in names:
        return f"not found: {reinstall}"
    from hydra_plugins.radial_vicreg_plugin import configuration_folder

    folder = configuration_folder()
    count = sum(1 for _ in Path(folder).rglob("*.yaml")) if folder else 0
    if not count:  # Hydra silently ignores a missing folder
        return f"found, but no configurations in {folder}: {reinstall}"
    return f"found, {counted(count, 'configuration')}"


def _problem(requirement: Requirement) -> str:
    """Describe how an installed package fails a requirement; empty if the requirement is met."""
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return f"{requirement.name} is missing"
    fits = requirement.specifier.contains(found, prereleases=True)
    return "" if fits else f"{requirement.name} {found} is not {requirement.specifier}"
