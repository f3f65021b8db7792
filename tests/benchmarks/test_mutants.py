"""The list of deliberate faults fits the code, and what comes of one is told rightly."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutant_list import MUTANTS, Mutant


def test_every_fault_is_found_once_and_its_tests_are_there() -> None:
    mutants.refuse_misfits(MUTANTS)
    assert not [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1]
    assert not [mutant.name for mutant in MUTANTS if mutant.old == mutant.new or not mutant.tests]


def _fault(name: str, new: str, old: str = "a > b", **changes: object) -> Mutant:
    return Mutant(name, "", **{"definition": "larger", "old": old, "new": new, "tests": ("test_toy.py",)} | changes)  # type: ignore[arg-type]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two functions and a test of one."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # most of a small run's time
    root = tmp_path / "repository"
    for file, text in {
        "pytest.ini": "[pytest]\n",
        "toy/__init__.py": "def smaller(a, b):\n    return b if a > b else a\n\n\n"
        "def larger(a, b):\n    return a if a > b else b\n",
        "tests/inner/test_toy.py": "import toy\n\n\ndef test_larger():\n    assert toy.larger(1, 2) == 2\n",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


def test_a_fault_is_killed_survives_or_is_not_run_where_its_test_fails_anyway(toy: Path, tmp_path: Path) -> None:
    broken = "tests/inner/test_broken.py"
    test = "def test_broken(): assert toy.larger(1, 2) == 3"
    (toy / broken).write_text(f"import toy\n{test}\ndef test_nothing(): pass\n")
    faults = [
        _fault("toy/the-smaller", "a < b"),
        _fault("toy/the-second-of-two", "a >= b"),
        _fault("toy/seen-by-a-broken-test", "a >= b", tests=("test_broken.py",)),
    ]
    before, seen = (toy / "toy/__init__.py").read_text(), []

    def run() -> list[tuple[str, list[str]]]:
        found = mutants.run(faults, root=toy, package="toy", out=tmp_path, show=lambda text, done: seen.append(text))
        return [(entry["result"], entry["by"]) for entry in found["mutants"]]

    killed, survived = (mutants.KILLED, ["tests/inner/test_toy.py::test_larger"]), (mutants.SURVIVED, [])
    not_run = (mutants.NOT_RUN, [f"{broken}::test_broken fails without the fault as well"])
    assert run() == [killed, survived, not_run]
    assert "| toy  | 3      | 1      | 1        | 1       |" in (tmp_path / "mutants.md").read_text()
    assert (toy / "toy/__init__.py").read_text() == before
    assert json.loads((tmp_path / "mutants.json").read_text())["broken"] == [f"{broken}::test_broken"]
    seen.clear()
    assert run() == [killed, survived, survived], "the broken test is omitted by the next start"
    assert not any("the-smaller" in text for text in seen), "a second start has tried a fault again"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_fault("x", "", old="a < b"), "x: 0 places hold its old text in larger, expected 1"),
        (_fault("x", "", old="b"), "x: 3 places hold its old text in larger, expected 1"),
        (_fault("x", "", tests=("test_no.py",)), "x: 0 test files are named test_no.py, expected 1"),
        (_fault("x", "", tests=("test_toy.py::test_no",)), "x: test_toy.py has no test_no"),
    ],
)
def test_a_fault_that_does_not_fit_is_refused(toy: Path, fault: Mutant, said: str) -> None:
    with pytest.raises(mutants.MutantError) as refused:
        mutants.refuse_misfits([fault], toy, "toy")
    assert str(refused.value) == said
