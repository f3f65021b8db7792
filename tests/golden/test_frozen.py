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

CONFIGURATIONS, IDENTITIES, PRODUCTS = map(freeze.read, ("configurations", "identities", "products"))
IDENTITIES_OF_0_2 = freeze.read("identities_of_0_2")  # written by that release, never again
RUN_TOPICS = {topic: freeze.read(topic) for topic in cases.RUN_TOPICS}
ADDITIONS = {("data.format", "device"), ("data.format", "dali"), ("data.multi_label", True)}

Measured = tuple[Path, dict[str, freeze.Flat]]

hosts = pytest.mark.parametrize("host", ["standalone", pytest.param("solo", marks=pytest.mark.solo)])


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Measured]:
    """Trains each run once, when it is first asked for: its folder, and what was in it before anybody added to it."""

    @cache
    def measured(host: str) -> Measured:
        folder = freeze.train(host, tmp_path_factory.mktemp(host))
        return folder, freeze.measure_run(folder)

    return measured


@pytest.mark.parametrize("words", cases.CONFIGURATIONS)
def test_a_shipped_configuration_prints_the_frozen_values(words: str) -> None:
    assert freeze.measure_configuration(words) == CONFIGURATIONS[words]


@pytest.mark.parametrize("words", cases.IDENTITIES)
def test_a_configuration_has_the_frozen_hashes(words: str) -> None:
    assert freeze.measure_identity(words) == IDENTITIES[words]


@pytest.mark.parametrize(
    "words",
    [
        words if words.startswith("celeba") else pytest.param(words, marks=pytest.mark.slow)
        for words in IDENTITIES_OF_0_2
    ],
)
def test_a_configuration_of_release_0_2_has_its_hashes_unless_it_sets_an_addition(words: str) -> None:
    expected = IDENTITIES_OF_0_2[words]
    if words not in cases.CORRECTED_SINCE_0_2:
        assert freeze.measure_identity_of_0_2(words) == expected
    has_addition = bool(freeze.measure_configuration(words).items() & ADDITIONS)
    assert (freeze.measure_identity(words) != expected) == has_addition


@hosts
def test_a_run_leaves_what_is_frozen(host: str, trained: Callable[[str], Measured]) -> None:
    for topic in cases.RUN_TOPICS:
        if topic != "numbers":
            assert trained(host)[1][topic] == RUN_TOPICS[topic][host], topic


@hosts
def test_a_run_has_the_frozen_loss_terms(host: str, trained: Callable[[str], Measured]) -> None:
    if version(timm.__version__) < version("1.0.23"):
        pytest.skip(f"timm before 1.0.23 draws a ViT's weights in another order, found {timm.__version__}")
    assert trained(host)[1]["numbers"] == pytest.approx(RUN_TOPICS["numbers"][host], rel=1e-2, abs=1e-2)


@pytest.mark.slow
def test_probes_and_exports_write_files_of_the_frozen_shape(trained: Callable[[str], Measured]) -> None:
    assert freeze.measure_products(trained("standalone")[0]) == PRODUCTS["standalone"]
