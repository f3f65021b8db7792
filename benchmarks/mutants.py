"""Do the tests see a fault? Deliberate ones, one at a time, each with the tests of its own room.

    python -m benchmarks.mutants                      # the fast tests: half an hour on an idle core
    python -m benchmarks.mutants --slow               # also the faults that only slow tests can see
    python -m benchmarks.mutants --only 'losses/*' --list

Each fault of :mod:`benchmarks.mutant_list` replaces one text in a copy of the repository, and pytest runs the tests
that are named with it. A fault is killed where a test fails, and survives where all of them pass. At the end, the tests
that killed run once more in the unchanged copy: one that fails there proves nothing, and the next start omits it.

Results go to ``mutants.json`` and ``mutants.md`` after each fault. A second start keeps what was found for the same
tests and the same package, and tries the rest.
"""

from __future__ import annotations

import argparse
import ast
import fnmatch
import hashlib
import itertools
import json
import os
import queue
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from benchmarks.mutant_list import MUTANTS, Mutant
from benchmarks.runner import RESULTS, headline, machine, markdown_table, output_folder
from radial_vicreg.io.files import write_json
from radial_vicreg.io.terminal import Bar

ROOT = Path(__file__).parents[1]
PACKAGE = "radial_vicreg"
KILLED, SURVIVED, NOT_RUN = "killed", "survived", "not run"
_SERVER = Path(__file__).with_name("forked_tests.py")
#: External packages whose import takes seconds.
_LARGE = (
    *("torch", "lightning.pytorch", "timm", "torchvision", "torchmetrics", "sklearn.model_selection", "scipy.stats"),
    *("matplotlib.pyplot", "hydra", "pydantic", "hypothesis"),
)
#: Top-level entries that are not copied: hidden files, and files of installations and runs.
_NOT_COPIED = (".*", "*.egg-info", "build", "runs", "trained_models", "datasets", "lightning_logs")
_LIMIT = 300.0  # seconds for the tests of one fault; the only way to detect a deadlock
_FAILED = 1  # pytest's exit status after a failed test; 2 to 5: the tests did not run


class MutantError(ValueError):
    """An entry of the list does not match the code or the tests."""


class Place(NamedTuple):
    """Place of a fault: a file and the offset of the old text in it."""

    file: Path
    start: int


class Outcome(NamedTuple):
    """Result of pytest: ``KILLED``, ``SURVIVED`` or ``NOT_RUN``; failed tests, or why it did not run; seconds."""

    result: str
    by: list[str]
    seconds: float


def sources_of(folder: Path) -> dict[Path, str]:
    """Read every module of a folder."""
    return {file: file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py"))}


def place_of(mutant: Mutant, sources: Mapping[Path, str]) -> Place:
    """Find the old text of a fault in the module with its definition.

    Raises:
        MutantError: the text does not occur exactly once.
    """
    found = []
    for file, text in sources.items():
        if mutant.old in text:
            for begin, end in _spans(text, mutant.definition):
                inside = re.finditer(re.escape(mutant.old), text[begin:end])
                found += [Place(file, begin + match.start()) for match in inside]
    if len(found) != 1:
        raise MutantError(f"{mutant.name}: {len(found)} places hold its old text in {mutant.definition}, expected 1")
    return found[0]


def tests_of(mutant: Mutant, tests: Mapping[Path, str]) -> list[str]:
    """Find the test files of a fault in any folder, and return pytest's arguments relative to the repository.

    Raises:
        MutantError: a file or a test does not exist, or a file name occurs twice.
    """
    found = []
    for named in mutant.tests:
        name, _, test = named.partition("::")
        files = [file for file in tests if file.name == name]
        if len(files) != 1:
            raise MutantError(f"{mutant.name}: {len(files)} test files are named {name}, expected 1")
        if test and f"def {test.rpartition('::')[2]}(" not in tests[files[0]]:
            raise MutantError(f"{mutant.name}: {name} has no {test}")
        found.append(f"{files[0]}::{test}" if test else str(files[0]))
    return found


def digest_of(root: Path, package: str) -> str:
    """Hash package and tests, since results are valid for identical files only."""
    found = hashlib.sha256()
    for file in sorted(file for folder in (package, "tests") for file in (root / folder).rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:12]


class Copy:
    """A copy of the repository in which faults are made and tests run; a context manager.

    Args:
        root: the repository.
        folder: folder of the copy; must not exist.
        package: name of the package.

    Raises:
        MutantError: Python imports the package from another folder.
    """

    def __init__(self, root: Path, folder: Path, package: str = PACKAGE) -> None:
        ignored = shutil.ignore_patterns(*_NOT_COPIED)
        shutil.copytree(
            root,
            folder,
            symlinks=True,
            ignore=lambda place, names: ignored(place, names) if Path(place) == root else (),
        )
        self.folder, self.package = folder, folder / package
        # The copy comes first on the path, also for child processes, so before an editable installation.
        # Plug-ins in the PYTEST_ADDOPTS of a surrounding pytest would not be found from the copy.
        alone = {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTEST_ADDOPTS": ""}
        environment = {**os.environ, **alone}
        options: dict[str, Any] = {"cwd": folder, "env": environment}
        ask = [sys.executable, "-c", f"import {package}; print({package}.__file__)"]
        said = subprocess.run(ask, capture_output=True, text=True, **options).stdout.strip()
        if not said or not Path(said).resolve().is_relative_to(self.package.resolve()):
            raise MutantError(f"Python takes {package} from {said or 'nowhere'}, not from the copy {self.package}")
        self._running: int | None = None
        self._server = subprocess.Popen(
            [sys.executable, str(_SERVER), *(_LARGE if package == PACKAGE else ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # with a buffer, select would miss lines that were read already
            start_new_session=True,  # Ctrl-C must reach only this process, which then ends the server
            **options,
        )

    def __enter__(self) -> Copy:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._server.kill()
        self._server.communicate()

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """Apply a fault within a ``with`` block."""
        sources = sources_of(self.package)
        file, start = place_of(mutant, sources)
        text = sources[file]
        try:
            _replace(file, text[:start] + mutant.new + text[start + len(mutant.old) :])
            yield
        finally:
            _replace(file, text)

    def test(
        self,
        tests: Sequence[str],
        slow: bool = False,
        first: bool = True,
        without: Iterable[str] = (),
        limit: float | None = None,
    ) -> Outcome:
        """Run tests.

        Args:
            tests: test files, or tests in files.
            slow: also run tests marked slow.
            first: stop at the first failure.
            without: tests to omit.
            limit: time limit in seconds; None: no limit.
        """
        began = time.monotonic()
        report = self.folder / ".report.xml"
        report.unlink(missing_ok=True)
        options = ["-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}"]
        options += [*["-x"] * first, *["--slow"] * slow, *(f"--deselect={test}" for test in without)]
        log = self.folder / ".log"
        log.unlink(missing_ok=True)
        status = self._status([*options, *tests], log, limit)
        seconds = round(time.monotonic() - began, 1)
        if status is None:
            return Outcome(KILLED, [f"the time limit of {limit:g} s"], seconds)
        ran, failed = _reported(report)
        if status == _FAILED and failed:
            return Outcome(KILLED, failed, seconds)
        if status == 0 and ran:
            return Outcome(SURVIVED, [], seconds)
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        return Outcome(NOT_RUN, [f"exit status {status}: {' / '.join(lines[-3:])}"[:300]], seconds)

    def stop(self) -> None:
        """Kill a running pytest and every process of its group."""
        if self._running is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._running, signal.SIGKILL)

    def _status(self, arguments: list[str], log: Path, limit: float | None) -> int | None:
        """Run pytest and return its exit status; None if it exceeded the limit."""
        asked, answers = self._server.stdin, self._server.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps({"arguments": arguments, "log": str(log)}).encode() + b"\n")
        self._running = int(answers.readline())
        in_time = bool(select.select([answers], [], [], limit)[0])
        self.stop()  # after a run has ended, kill the processes it left behind
        status = int(answers.readline())
        self._running = None
        return status if in_time else None


def run(
    mutants: Sequence[Mutant],
    only: Collection[str] | None = None,
    root: Path = ROOT,
    package: str = PACKAGE,
    out: Path = RESULTS,
    jobs: int = 1,
    limit: float = _LIMIT,
    fresh: bool = False,
    show: Callable[[str, int], None] = lambda text, done: None,
) -> dict[str, Any]:
    """Test faults, and write the results after each.

    Args:
        mutants: all faults.
        only: names of the faults to test; None: all. Results of the others are kept.
        root: the repository.
        package: name of the package.
        out: folder of ``mutants.json`` and ``mutants.md``.
        jobs: number of copies that work in parallel.
        limit: seconds for the tests of one fault.
        fresh: discard earlier results.
        show: callback with the current fault and the number of finished faults.

    Returns:
        Content of ``mutants.json``.

    Raises:
        MutantError: faults do not match the code or the tests; the message names all of them.
    """
    refuse_misfits(mutants, root, package)
    digest, file = digest_of(root, package), out / "mutants.json"
    before = {} if fresh or not file.is_file() else json.loads(file.read_text(encoding="utf-8"))
    if before.get("digest") != digest:
        before = {}
    known = {mutant.name: _attempt_of(asdict(mutant)) for mutant in mutants}
    kept = (entry for entry in before.get("mutants", []) if entry["result"] != NOT_RUN)
    entries = {entry["name"]: entry for entry in kept if known.get(entry["name"]) == _attempt_of(entry)}
    chosen = [mutant for mutant in mutants if only is None or mutant.name in only]
    todo = [mutant for mutant in chosen if mutant.name not in entries]
    broken, where = list(before.get("broken", [])), machine()

    def found() -> dict[str, Any]:
        ordered = [entries[mutant.name] for mutant in mutants if mutant.name in entries]
        return {"name": "mutants", "digest": digest, "machine": where, "broken": broken, "mutants": ordered}

    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary, ExitStack() as copying:
        count = max(min(jobs, len(todo)), bool(_unproven(entries)))
        copies = [copying.enter_context(Copy(root, Path(temporary) / str(job), package)) for job in range(count)]
        free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for copy in copies:
            free.put(copy)
        lock = threading.Lock()

        def attempt(mutant: Mutant) -> None:
            copy = free.get()
            try:
                with copy.changed(mutant):
                    tests = tests_of(mutant, sources_of(copy.folder / "tests"))
                    outcome = copy.test(tests, mutant.slow, without=broken, limit=limit)
            finally:
                free.put(copy)
            with lock:
                found_now = {"tests": list(mutant.tests), **outcome._asdict(), "proven": False}
                entries[mutant.name] = {**asdict(mutant), **found_now}
                _save(found(), out)
                show(f"{mutant.name}: {outcome.result}", sum(mutant.name in entries for mutant in chosen))

        pool = ThreadPoolExecutor(max(1, len(copies)))
        try:
            for future in as_completed([pool.submit(attempt, mutant) for mutant in todo]):
                future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in copies:
                copy.stop()
            pool.shutdown()
        if _unproven(entries):
            show("the tests that killed, without a fault", len(chosen))
            broken += _prove(list(_unproven(entries)), copies[0])
    content = found()
    _save(content, out)
    return content


def tables(content: dict[str, Any]) -> dict[str, str]:
    """Format the results as Markdown, by heading: numbers by package, surviving faults, and all faults."""
    entries = content["mutants"]
    rooms = dict.fromkeys(entry["name"].partition("/")[0] for entry in entries)
    by_room = {room: [entry for entry in entries if entry["name"].startswith(f"{room}/")] for room in rooms}
    numbers = [[room, *_numbers(found)] for room, found in by_room.items()]
    survivors = [
        [entry["name"], entry["fault"], ", ".join(entry["tests"])] for entry in entries if entry["result"] != KILLED
    ]
    rows = [
        [entry["name"], entry["fault"], entry["result"], _short(entry["by"]), f"{entry['seconds']:.0f}"]
        for entry in entries
    ]
    found = {
        "Numbers": markdown_table(
            ["Room", "Faults", "Killed", "Survived", "Not run", "Killed (%)"], [*numbers, ["all", *_numbers(entries)]]
        ),
        "Survivors": markdown_table(["Fault", "What it does", "Tests that passed"], survivors),
        "Faults": markdown_table(["Fault", "What it does", "Result", "By", "Seconds"], rows),
    }
    return {heading: table for heading, table in found.items() if heading != "Survivors" or survivors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="PATTERN", help="names of faults, such as 'losses/*'"
    )
    parser.add_argument("--list", action="store_true", help="print the chosen faults and do not test them")
    parser.add_argument("--slow", action="store_true", help="include faults that only slow tests detect")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel copies (default: 1)")
    parser.add_argument("--limit", type=float, default=_LIMIT, help="time limit in seconds for the tests of one fault")
    parser.add_argument("--fresh", action="store_true", help="discard the results of earlier starts")
    parser.add_argument("--out", type=output_folder, default=RESULTS, metavar="DIR", help="default: benchmarks/results")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if any(fnmatch.fnmatch(mutant.name, text) for text in options.only)]
    chosen = [mutant for mutant in chosen if options.slow or not mutant.slow]
    if not chosen or options.jobs < 1:
        parser.error("no fault matches these names" if not chosen else "--jobs must be 1 or more")
    if options.list:
        print(markdown_table(["Fault", "What it does", "In"], [[m.name, m.fault, m.definition] for m in chosen]))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, which ends the copies
    with Bar("faults", len(chosen)) as bar:
        before = 0

        def show(text: str, done: int) -> None:
            nonlocal before
            bar.relabel(text)
            if done > before:
                bar.advance(done - before)
                before = done
            if not sys.stderr.isatty():
                print(f"{done} of {len(chosen)}: {text}", file=sys.stderr)

        names = {mutant.name for mutant in chosen}
        try:
            content = run(
                MUTANTS, names, out=options.out, jobs=options.jobs, limit=options.limit, fresh=options.fresh, show=show
            )
        except MutantError as error:
            raise SystemExit(str(error)) from error
    for heading, table in list(tables(content).items())[:-1]:
        print(f"\n{heading}\n\n{table}")
    print(options.out / "mutants.md")


def _spans(text: str, definition: str) -> Iterator[tuple[int, int]]:
    """Find a function, class or name by its dotted path: offsets from its decorators to its end."""
    starts = list(itertools.accumulate((len(line) + 1 for line in text.split("\n")), initial=0))

    def walk(nodes: Sequence[ast.stmt], names: list[str]) -> Iterator[tuple[int, int]]:
        for node in nodes:
            for name in _names(node):
                if name == names[0] and len(names) == 1:
                    first = min([node, *getattr(node, "decorator_list", [])], key=lambda part: part.lineno).lineno
                    assert node.end_lineno is not None
                    yield starts[first - 1], starts[node.end_lineno]
                elif name == names[0]:
                    yield from walk(getattr(node, "body", []), names[1:])

    yield from walk(ast.parse(text).body, definition.split("."))


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def _replace(file: Path, text: str) -> None:
    """Write a module and remove its bytecode, which Python cannot distinguish for two versions in one second."""
    file.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def _reported(report: Path) -> tuple[int, list[str]]:
    """Read the number of tests that ran, and the failed ones as arguments of pytest."""
    if not report.is_file():
        return 0, []
    ran, failed = 0, []
    for case in ElementTree.parse(report).iter("testcase"):
        ran += case.find("skipped") is None
        if case.find("failure") is not None or case.find("error") is not None:
            module = str(case.get("file", "")).removesuffix(".py").replace("/", ".")
            inner = str(case.get("classname", "")).removeprefix(module).strip(".").split(".")
            failed.append("::".join([str(case.get("file")), *filter(None, inner), str(case.get("name"))]))
    return ran, list(dict.fromkeys(failed))


def refuse_misfits(mutants: Sequence[Mutant], root: Path = ROOT, package: str = PACKAGE) -> None:
    """Refuse a list that does not match the code or the tests.

    Raises:
        MutantError: entries do not match; the message names all of them.
    """
    sources, tests, problems = sources_of(root / package), sources_of(root / "tests"), []
    for mutant in mutants:
        for check in (lambda one: place_of(one, sources), lambda one: tests_of(one, tests)):
            try:
                check(mutant)
            except MutantError as error:
                problems.append(str(error))
    if problems:
        raise MutantError("\n".join(problems))


def _unproven(entries: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the kills whose tests have not been run without a fault."""
    return [entry for entry in entries.values() if entry["result"] == KILLED and not entry["proven"]]


def _prove(kills: Sequence[dict[str, Any]], copy: Copy) -> list[str]:
    """Run the tests of kills in the unchanged copy; a kill by a test that fails there is invalid.

    Returns:
        The failing tests.
    """
    tests = dict.fromkeys(test for entry in kills for test in entry["by"] if "::" in test)  # no time limit
    outcome = copy.test(list(tests), any(entry["slow"] for entry in kills), first=False) if tests else None
    if outcome is not None and outcome.result == NOT_RUN:
        raise MutantError(f"the tests that detected it do not run without a fault: {outcome.by[0]}")
    failing = [] if outcome is None else outcome.by
    for entry in kills:
        entry["proven"] = True
        if not set(entry["by"]).isdisjoint(failing):
            entry |= {"result": NOT_RUN, "by": [f"{entry['by'][0]} fails without the fault as well"]}
    return failing


def _attempt_of(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Return the key of a result; a change of texts or tests invalidates it."""
    return (*(entry[name] for name in ("definition", "old", "new", "slow")), *entry["tests"])


def _save(content: dict[str, Any], out: Path) -> None:
    write_json(out / "mutants.json", content)
    lines = ["# Deliberate faults", "", headline(content["machine"])]
    if content["broken"]:
        lines += ["", f"Tests that fail without a fault: {', '.join(content['broken'])}."]
    for heading, table in tables(content).items():
        lines += ["", f"## {heading}", "", table]
    (out / "mutants.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _numbers(entries: Sequence[dict[str, Any]]) -> list[object]:
    results = [entry["result"] for entry in entries]
    killed, survived = results.count(KILLED), results.count(SURVIVED)
    tried = killed + survived
    return [len(results), killed, survived, len(results) - tried, f"{100 * killed / tried:.0f}" if tried else "-"]


def _short(by: Sequence[str]) -> str:
    """Return the first failed test without its folders; bars are escaped, since they would end the cell."""
    return by[0].rpartition("/")[2].replace("|", "\\|")[:120] if by else ""


if __name__ == "__main__":
    main()
