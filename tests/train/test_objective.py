"""A run with a custom loss: what it is called with, what it may return, and what is said otherwise."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from configs import plain_config
from helpers import Pretrain, assert_equal, one_line, only_run, read_results, weights_of
from torch import Tensor, nn

from radial_vicreg.config import RunConfig, read_config
from radial_vicreg.errors import MissingPackageError, UserError
from radial_vicreg.train.loss import CustomLoss, build_objective, check_objective

HERE = "train_objective_losses"


class Loss(nn.Module):
    """A loss of somebody's own."""

    def __init__(self, returned: str = "loss", weight: float = 1.0) -> None:
        super().__init__()
        self.returned, self.weight, self.calls = returned, weight, 0

    def forward(self, z1: Tensor, z2: Tensor) -> Any:
        self.calls += 1
        loss = self.weight * (z1 - z2).square().mean()
        return {
            "loss": loss,
            "terms": {"loss": loss, "scale": z1.std(), "weight": 2.0},
            "vector": z1[:, 0],
            "no loss": {"scale": loss},
            "text": "0.3",
            "without gradient": loss.detach(),
            "vector beside": {"loss": loss, "scale": z1[:, 0]},
            "host's": {"loss": loss, "class_loss": loss},
            "changing": {"loss": loss, f"term{self.calls}": loss},
        }[self.returned]


class Views:
    """One that receives every view."""

    def __call__(self, *views: Tensor) -> Tensor:
        return torch.stack(views).var(dim=0).mean()


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this file's losses importable under a name of their own."""
    monkeypatch.setitem(sys.modules, HERE, sys.modules[__name__])


def own(target: str = f"{HERE}.Loss", crops: int = 2, views: str = "pair", **arguments: Any) -> RunConfig:
    loss = {"_target_": target, **arguments}
    return read_config(plain_config(method="mine", loss=loss, loss_views=views, augmentations__0__num_crops=crops))


def views(count: int = 2) -> list[Tensor]:
    return [torch.randn(4, 8, requires_grad=True) for _ in range(count)]


def test_a_number_or_a_dictionary_of_terms_may_be_returned() -> None:
    z1, z2 = views()
    loss = build_objective(own(weight=3.0))
    assert torch.equal(loss(z1, z2), 3 * (z1 - z2).square().mean())
    assert loss.terms.keys() == {"loss"}
    loss = build_objective(own(returned="terms"))
    loss(z1, z2).backward()
    assert z1.grad is not None
    assert {name: float(term) for name, term in loss.terms.items()} == pytest.approx(
        {"loss": float((z1 - z2).square().mean().detach()), "scale": float(z1.detach().std()), "weight": 2.0}
    )
    assert not any(term.requires_grad for term in loss.terms.values())


def test_every_view_is_given_when_asked_for_and_terms_that_a_loss_keeps_are_logged() -> None:
    z = views(3)
    found = build_objective(own(f"{HERE}.Views", crops=3, views="all"))(*z)
    assert torch.equal(found, Views()(*z))
    loss = build_objective(own("radial_vicreg.losses.RadialVICRegLoss", views="all", radial_objective="none"))
    loss(*z)
    assert {"vicreg_loss", "vicreg_invariance", "loss", "radius_mean"} <= loss.terms.keys()


def test_half_precision_ends_at_the_loss() -> None:
    seen = []

    class Seen(Loss):
        def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
            seen.append((z1.dtype, (z1 @ z2.T).dtype))
            loss: Tensor = super().forward(z1, z2)
            return loss

    loss = CustomLoss(own().loss)  # type: ignore[arg-type]
    loss.loss = Seen()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss(*(z.bfloat16() for z in views()))
    assert seen == [(torch.float32, torch.float32)]  # autocast would have made the product bfloat16


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("vector", r"returned a tensor of shape \(4,\) and type float32: it must return a 0-d"),
        ("no loss", "returned a dictionary of scale: it must"),
        ("text", "returned str '0.3': it must"),
        ("without gradient", "returned a number without gradient"),
        ("vector beside", r"returned 'scale': a tensor of shape \(4,\)"),
        ("host's", "returned 'class_loss'"),
    ],
)
def test_what_is_no_loss_is_refused_before_a_run_starts(returned: str, said: str) -> None:
    with pytest.raises(UserError, match=rf"loss\._target_={HERE}.Loss {said}"):
        check_objective(own(returned=returned), torch.device("cpu"))


def test_terms_that_change_from_step_to_step_are_refused() -> None:
    loss = build_objective(own(returned="changing"))
    loss(*views())
    with pytest.raises(UserError, match=r"returned term2, loss after term1, loss: .* the same other numbers"):
        loss(*views())


@pytest.mark.parametrize(
    ("target", "arguments", "said"),
    [
        (f"{HERE}.Los", {}, "has no attribute 'Los'"),
        (f"{HERE}.Loss", {"wait": 1}, "unexpected keyword argument 'wait'"),
        ("math.sqrt", {"_args_": [4.0]}, "is float 2.0, which cannot be called"),
    ],
)
def test_a_loss_that_cannot_be_built_says_why(target: str, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=rf"loss\._target_={target}.*{said}"):
        build_objective(own(target, **arguments))


def test_a_loss_of_another_number_of_views_is_refused_and_no_random_number_drawn() -> None:
    state = torch.get_rng_state()
    told = r"cannot be called with 3 views .*: it receives \(z1, z2\) with loss_views=pair"
    with pytest.raises(UserError, match=told):
        check_objective(own(crops=3, views="all"), torch.device("cpu"))
    check_objective(own(), torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), state)


def write_loss(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> list[str]:
    """Write a module with a loss into the working directory, and return the overrides that choose it."""
    head = "import torch\nclass Loss(torch.nn.Module):\n"
    (folder / f"{name}.py").write_text(head + textwrap.indent(textwrap.dedent(body), "    "))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return ["radialvicreg/method=own", "method=mine", f"loss._target_={name}.Loss"]


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [found for found in sys.modules if found.split(".")[0] == "lightly"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "lightly", None)
    with pytest.raises(MissingPackageError, match=r"LeJEPALoss needs lightly.*pip install 'radial-vicreg\[lightly\]'"):
        build_objective(own("radial_vicreg.lightly_losses.LeJEPALoss"))


def test_a_module_in_the_working_directory_trains_to_the_end_and_its_terms_are_logged(
    pretrain: Pretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
    def __init__(self, start):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(start))
    def forward(self, z1, z2):
        apart = (z1 - z2 * self.scale).square().mean()
        return {'loss': apart - z1.std(), 'apart': apart}
    """
    own = [*write_loss("lies_here", tmp_path, monkeypatch, body), "+loss.start=0.5"]
    done = pretrain(*own, "host=auto")
    results = done.results
    assert (results["status"], results["method"], results["host"]) == ("finished", "mine", "standalone")
    assert results["loss_terms"]["train_apart"] > 0
    assert results["config"]["loss"] == {"_target_": "lies_here.Loss", "start": 0.5}
    assert not [key for key in results["config"]["method_kwargs"] if "weight" in key]
    assert results["radii"]["final"]["eval"]["w1_chi"] > 0
    assert float(weights_of(done.run)["objective.loss.scale"]) != 0.5


def test_a_value_error_of_the_loss_on_finite_views_is_no_divergence(
    pretrain: Pretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """
    calls = 0
    def forward(self, z1, z2):
        self.calls += 1
        if self.calls == 2:
            raise ValueError('the second batch is not for me')
        return (z1 - z2).square().mean()
    """
    own = [*write_loss("gives_up", tmp_path, monkeypatch, body), "diagnostics.enabled=false"]
    with pytest.raises(ValueError, match=r"^the second batch is not for me$"):
        pretrain(*own)
    results = read_results(only_run(tmp_path / "runs"))
    assert results["status"] == "failed"
    assert "the second batch is not for me" in results["error"]
    assert "diverged" not in results["error"]


def test_the_same_loss_as_one_s_own_gives_the_weights_of_the_method(pretrain: Pretrain, tmp_path: Path) -> None:
    quick = ["max_epochs=1", "diagnostics.enabled=false"]
    expected = pretrain(*quick, "radialvicreg/method=vicreg", "++method_kwargs.e2mc_loss_weight=10").run
    own = ["radialvicreg/method=e2mc", "loss.e2mc_loss_weight=10", f"runs_dir={tmp_path / 'others'}"]
    assert_equal(weights_of(pretrain(*quick, *own).run), weights_of(expected), "weights")


def test_a_failing_choice_writes_nothing(pretrain: Pretrain) -> None:
    refused = pretrain("radialvicreg/method=own", "method=mine", "loss._target_=nowhere.Loss", status=2)
    said = "No module named 'nowhere'. It must be a class's dotted name, importable here"
    one_line(refused.stderr, "loss._target_=nowhere.Loss cannot be built", said)
    assert not refused.folder.exists()
