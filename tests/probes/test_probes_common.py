"""What holds for every probe."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from radial_vicreg.errors import UserError
from radial_vicreg.names.probes import PROBES
from radial_vicreg.probes import LinearProbe, MLPProbe, mlp
from radial_vicreg.probes.features import extract
from radial_vicreg.probes.registry import probe_class
from radial_vicreg.probes.selection import Standardiser, hold_out

QUICK = {"mlp": {"rates": (3e-3,), "hidden_dim": 32}}


@pytest.fixture(params=PROBES)
def make_probe(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable:
    monkeypatch.setattr(mlp, "_FEWEST_STEPS", 150)
    return partial(probe_class(request.param), **QUICK.get(request.param, {}))


def test_shuffled_labels_give_chance_within_three_standard_errors(make_probe: Callable, clusters: Callable) -> None:
    (x, y), (x_test, y_test) = clusters(per_class=150), clusters(per_class=150, seed=1)
    generator = torch.Generator().manual_seed(3)
    shuffled, shuffled_test = (labels[torch.randperm(len(labels), generator=generator)] for labels in (y, y_test))
    top1 = make_probe().fit(x, shuffled).score(x_test, shuffled_test)["top1"]
    assert abs(top1 - 25.0) < 3 * 100 * np.sqrt(0.25 * 0.75 / len(y_test))


def test_shuffled_attributes_give_chance_within_three_standard_errors(
    make_probe: Callable, attributes: Callable
) -> None:
    (x, y), (x_test, y_test) = attributes(500), attributes(500, seed=1)
    generator = torch.Generator().manual_seed(3)
    shuffled, shuffled_test = (labels[torch.randperm(500, generator=generator)] for labels in (y, y_test))
    found = make_probe().fit(x, shuffled).score(x_test, shuffled_test)
    for attribute, auroc in enumerate(found["per_attribute"]["auroc"]):
        positive = int(shuffled_test[:, attribute].sum())
        # Mann-Whitney: variance of the area under random ranks.
        error = 100 * np.sqrt(501 / (12 * positive * (500 - positive)))
        assert abs(auroc - 50.0) < 3 * error


def test_structure_is_found(make_probe: Callable, clusters: Callable) -> None:
    assert make_probe().fit(*clusters(spread=0.5)).score(*clusters(spread=0.5, seed=1))["top1"] > 95


def test_attributes_are_found(make_probe: Callable, attributes: Callable) -> None:
    found = make_probe().fit(*attributes(600)).score(*attributes(seed=1))
    assert all(auroc > 75 for auroc in found["per_attribute"]["auroc"])


def test_labels_of_the_test_set_must_be_known(make_probe: Callable, clusters: Callable) -> None:
    x, y = clusters()
    with pytest.raises(ValueError, match=r"labels \[4\] are missing from the training set"):
        make_probe().fit(x, y).score(x, y + 1)


def test_the_global_generator_is_left_alone(make_probe: Callable, clusters: Callable) -> None:
    state = torch.get_rng_state()
    make_probe().fit(*clusters())
    assert torch.equal(torch.get_rng_state(), state)


def test_multi_label_regression_is_scikit_learns_for_each_attribute(attributes: Callable) -> None:
    (x, y), (x_test, _) = attributes(), attributes(seed=1)
    probe = LinearProbe(strengths=(0.1,)).fit(x, y)
    scaler = StandardScaler().fit(x.numpy())
    found = probe._scores(x_test)
    for attribute in range(3):
        reference = LogisticRegression(C=0.1, tol=1e-8, max_iter=1000)
        reference.fit(scaler.transform(x.numpy()), y[:, attribute].numpy())
        expected = reference.decision_function(scaler.transform(x_test.numpy()))
        assert found[:, attribute].numpy() == pytest.approx(expected, abs=2e-3)


def test_the_mlp_solves_what_no_line_can_as_scikit_learns_does() -> None:
    def rings(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(600, 2, generator=generator)
        return x, (x.norm(dim=1) > 1.18).long()

    (x, y), (x_test, y_test) = rings(0), rings(1)
    found = MLPProbe(rates=(3e-3,), hidden_dim=32).fit(x, y).score(x_test, y_test)["top1"]
    reference = MLPClassifier((32,), learning_rate_init=3e-3, max_iter=200, random_state=0).fit(x, y)
    assert found == pytest.approx(100 * reference.score(x_test, y_test), abs=4)
    assert LinearProbe().fit(x, y).score(x_test, y_test)["top1"] < 65 < 90 < found


def test_the_choice_is_made_on_held_out_images_of_the_training_set(
    clusters: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlp, "_FEWEST_STEPS", 150)
    x, y = clusters(spread=2.0)
    probe = MLPProbe(rates=(1e-6, 1e-2), hidden_dim=16).fit(x, y)
    assert probe.chosen_ == {"lr": 1e-2}
    assert [entry["lr"] for entry in probe.held_out_] == [1e-6, 1e-2]
    assert probe.held_out_[1]["score"] > probe.held_out_[0]["score"]


@pytest.mark.parametrize(("images", "held_out"), [(100, 20), (104, 20), (105, 21), (10, 4)])
def test_a_fifth_of_the_images_is_held_out_and_one_per_class_or_more(images: int, held_out: int) -> None:
    fit, held = hold_out(torch.arange(images) % 4, seed=0)
    assert len(held) == held_out
    assert sorted([*fit.tolist(), *held.tolist()]) == list(range(images))


def test_the_held_out_part_is_stratified_as_soon_as_every_class_has_two_images() -> None:
    pairs = torch.arange(6).repeat_interleave(2)
    for seed in range(5):  # without stratification, one in 900 splits has each class once
        fit, held = hold_out(pairs, seed)
        assert sorted(pairs[held].tolist()) == sorted(pairs[fit].tolist()) == list(range(6))
    alone = torch.cat([torch.zeros(30, dtype=torch.long), torch.tensor([1])])
    assert [len(part) for part in hold_out(alone, seed=0)] == [25, 6]


def test_the_split_follows_the_seed() -> None:
    labels = torch.arange(40) % 4
    first, again, other = (hold_out(labels, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("labels", "needed"), [(torch.arange(3), 4), (torch.tensor([[0, 1]]), 2)])
def test_too_few_images_to_hold_one_out_are_refused(labels: torch.Tensor, needed: int) -> None:
    with pytest.raises(UserError, match=rf"expected {needed} or more, got {len(labels)}$"):
        LinearProbe().fit(torch.randn(len(labels), 4), labels)


def test_constant_features_stay_zero_when_they_are_standardised() -> None:
    features = torch.stack([torch.full((7,), 0.1), torch.arange(7.0)], dim=1)
    standardised = Standardiser(features)(features)
    assert standardised[:, 0].abs().max() < 1e-5
    assert float(standardised[:, 1].std(correction=0)) == pytest.approx(1)


def test_features_are_those_of_evaluation_and_the_mode_is_left_alone() -> None:
    norm = torch.nn.BatchNorm1d(3)
    model = torch.nn.Sequential(norm)
    model.forward = lambda images: {"feats": norm(images)}  # type: ignore[method-assign]
    images = torch.randn(8, 3) + 5
    found, _ = extract(model, [(images, torch.arange(8))], ["feats"])
    assert torch.allclose(found["feats"], images, atol=1e-4)
    assert model.training
    assert norm.training
