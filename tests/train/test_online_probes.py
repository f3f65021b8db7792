"""Online probes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from radial_vicreg.config import ProbesConfig
from radial_vicreg.probes.heads import layers
from radial_vicreg.probes.online import FeatureBank, HeadTrainer
from radial_vicreg.train.callbacks.online_probes import OnlineProbes

ALL = ProbesConfig(encoder_knn=True, knn_neighbours=(5, 20), lr=0.05)


def test_every_probe_learns_and_is_logged(fit: Callable) -> None:
    probes = OnlineProbes(ALL, crop_size=8)
    _, trainer = fit([probes], epochs=4)
    found = probes.results()["probes"]
    assert found.keys() == {"online_projector_linear", "online_mlp", "online_knn5", "online_knn20"}
    assert all(figures["top1"] > 90 and figures["top5"] == 100 for figures in found.values()), found
    assert float(trainer.callback_metrics["val_mlp_acc1"]) == pytest.approx(found["online_mlp"]["top1"])


def test_network_and_random_numbers_are_the_same_with_and_without_probes(fit: Callable) -> None:
    with_probes, _ = fit([OnlineProbes(ALL, crop_size=8)])
    drawn = torch.rand(1)
    without, _ = fit([])
    assert torch.equal(torch.rand(1), drawn)
    assert with_probes.state_dict().keys() == without.state_dict().keys()
    for name, value in without.state_dict().items():
        assert torch.equal(value, with_probes.state_dict()[name]), name


def test_multi_label_targets_get_all_figures_and_the_host_s_probe_too(fit: Callable) -> None:
    probes = OnlineProbes(ALL, crop_size=8)
    _, trainer = fit([probes], epochs=4, multi_label=True)
    found = probes.results()["probes"]
    assert "online_linear" in found
    assert found["online_mlp"]["balanced_accuracy"] > 90
    assert len(found["online_knn5"]["per_attribute"]["auroc"]) == 3
    assert "val_projector_linear_average_precision" in trainer.callback_metrics


def test_images_of_another_size_are_resized_and_the_host_s_probe_scored_again(fit: Callable) -> None:
    probes = OnlineProbes(ALL, crop_size=8)
    network, _ = fit([probes], val_size=16)
    assert set(network.seen_sizes) == {8, 16}
    assert "online_linear" in probes.results()["probes"]


def test_a_probe_that_is_switched_off_and_any_without_validation_is_not_there(fit: Callable) -> None:
    probes = OnlineProbes(ProbesConfig(encoder_mlp=False), crop_size=8)
    fit([probes], epochs=1)
    assert probes.results()["probes"].keys() == {"online_projector_linear"}
    probes = OnlineProbes(ALL, crop_size=8)
    fit([probes], epochs=1, validate=False)
    assert probes.results() == {"probes": {}}
    assert probes.state_dict()["trainer"] is None


def test_the_bank_is_bounded_and_holds_directions() -> None:
    bank = FeatureBank(limit=10)
    for start in (0, 6, 12):
        bank.add(1e6 * (1 + torch.rand(6, 4)), torch.arange(start, start + 6))
    features, targets = bank.gathered(lambda x: x)  # type: ignore[misc]
    assert targets.tolist() == list(range(10))
    assert torch.allclose(features.norm(dim=1), torch.ones(10), atol=2e-3)


def test_a_step_with_overflown_features_does_not_spoil_the_heads() -> None:
    trainer = HeadTrainer({"mlp": partial(layers, 4, 8, 3)}, None, 1e-3, 0, torch.device("cpu"))
    features = torch.randn(6, 4)
    features[0, 0], features[1, 1] = torch.inf, torch.nan
    trainer.step({"mlp": features}, torch.arange(6) % 3)
    assert all(torch.isfinite(parameter).all() for parameter in trainer.heads.parameters())


def test_the_rate_of_heads_falls_to_nothing_by_a_cosine() -> None:
    steps, lr = 8, 0.1
    trainer = HeadTrainer({"a": partial(layers, 4, 3)}, steps, lr, seed=0, device=torch.device("cpu"))
    rates = []
    for _ in range(steps):
        trainer.step({"a": torch.ones(2, 4)}, torch.tensor([0, 1]))
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    assert rates[0] == lr
    assert rates[steps // 2] == pytest.approx(lr / 2)
    assert 0 <= rates[-1] < 0.05 * lr
    assert rates == sorted(rates, reverse=True)


def test_the_knn_votes_with_features_of_one_epoch(fit: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    gathered = FeatureBank.gathered

    def counted(bank: FeatureBank, all_gather: Callable) -> tuple[torch.Tensor, torch.Tensor] | None:
        found = gathered(bank, all_gather)
        counts.append(0 if found is None else len(found[1]))
        return found

    monkeypatch.setattr(FeatureBank, "gathered", counted)
    fit([OnlineProbes(ALL, crop_size=8)], epochs=3)
    assert counts == [60] * 3  # the images of an epoch
