"""The package seen from outside is what the JSON files of this folder say; ``freeze.py`` wrote them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import cases
import freeze
import pytest
import timm
from packaging.version import parse as version

CONFIGURATIONS, IDENTITIES, COMMANDS, PRODUCTS = map(
    freeze.read, ("configurations", "identities", "commands", "products")
)
IDENTITIES_OF_0_2 = freeze.read("identities_of_0_2")  # written by that release, never again
RUN_TOPICS = {topic: freeze.read(topic) for topic in cases.RUN_TOPICS}

Measured = tuple[Path, dict[str, freeze.Flat]]


QUICK = {"standalone-kl", "solo-kl"}  # runs of the fast tests


def runs(names: list[str]) -> list[object]:
    return [
        pytest.param(
            name,
            marks=[
                *([pytest.mark.solo] if name.startswith("solo") else []),
                *([] if name in QUICK else [pytest.mark.slow]),
            ],
        )
        for name in names
    ]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Measured]:
    """Trains each run once, when it is first asked for: its folder, and what was in it before anybody added to it."""

    @cache
    def measured(name: str) -> Measured:
        folder = freeze.train(name, tmp_path_factory.mktemp(name))
        return folder, freeze.measure_run(folder)

    return measured


@pytest.mark.parametrize(
    ("frozen", "now"),
    [
        (CONFIGURATIONS, cases.CONFIGURATIONS),
        (IDENTITIES, cases.IDENTITIES),
        (COMMANDS, cases.COMMANDS),
        (PRODUCTS, cases.PRODUCTS),
        *((entries, cases.RUNS) for entries in RUN_TOPICS.values()),
    ],
    ids=["configurations", "identities", "commands", "products", *RUN_TOPICS],
)
def test_everything_that_is_measured_is_frozen(frozen: dict[str, freeze.Flat], now: list[str]) -> None:
    assert set(frozen) == set(now)


@pytest.mark.parametrize("words", CONFIGURATIONS)
def test_a_shipped_configuration_prints_the_frozen_values(words: str) -> None:
    assert freeze.measure_configuration(words) == CONFIGURATIONS[words]


@pytest.mark.parametrize("words", IDENTITIES)
def test_a_configuration_has_the_frozen_hashes(words: str) -> None:
    assert freeze.measure_identity(words) == IDENTITIES[words]


@pytest.mark.parametrize("words", [words for words in IDENTITIES_OF_0_2 if words not in cases.CORRECTED_SINCE_0_2])
def test_the_hashes_of_release_0_2_can_still_be_computed(words: str) -> None:
    assert freeze.measure_identity_of_0_2(words) == IDENTITIES_OF_0_2[words]


def test_only_configurations_that_set_an_addition_have_other_hashes_than_under_release_0_2() -> None:
    changed = {words for words, hashes in IDENTITIES_OF_0_2.items() if IDENTITIES[words] != hashes}
    added = {
        words
        for words in IDENTITIES_OF_0_2
        if CONFIGURATIONS[words.split()[0] if words not in CONFIGURATIONS else words].items()
        & {("data.format", "device"), ("data.format", "dali"), ("data.multi_label", True)}
    }
    assert changed == added
    assert added


@pytest.mark.parametrize("name", runs(list(cases.RUNS)))
@pytest.mark.parametrize("topic", [topic for topic in RUN_TOPICS if topic != "numbers"])
def test_a_run_leaves_what_is_frozen(topic: str, name: str, trained: Callable[[str], Measured]) -> None:
    assert trained(name)[1][topic] == RUN_TOPICS[topic][name]


@pytest.mark.parametrize("name", runs(list(cases.RUNS)))
def test_a_run_has_the_frozen_loss_terms(name: str, trained: Callable[[str], Measured]) -> None:
    if "resnet" not in name and version(timm.__version__) < version("1.0.23"):
        pytest.skip(f"timm before 1.0.23 draws a ViT's weights in another order, found {timm.__version__}")
    assert trained(name)[1]["numbers"] == pytest.approx(RUN_TOPICS["numbers"][name], rel=1e-2, abs=1e-2)


@pytest.mark.parametrize("name", runs(list(cases.PRODUCTS)))
def test_probes_and_exports_write_files_of_the_frozen_shape(name: str, trained: Callable[[str], Measured]) -> None:
    assert freeze.measure_products(name, trained(name)[0]) == PRODUCTS[name]


@pytest.mark.parametrize(
    "line",
    # It imports whatever is installed, and takes as long as twenty others.
    [pytest.param(line, marks=pytest.mark.slow) if line == "doctor" else line for line in COMMANDS],
)
def test_a_command_line_ends_with_the_frozen_status(
    line: str, tmp_path: Path, trained: Callable[[str], Measured]
) -> None:
    run = trained("standalone-kl")[0] if "RUN" in line.split() else tmp_path
    assert freeze.measure_command(line, run, tmp_path) == COMMANDS[line]
