"""What the objective leaves in a state_dict: nothing, or the number of calls that drew."""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any

import lightning
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as dcp_state

from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.runs.checkpoints import check_resumable

#: Objectives that draw, and those that do not.
DRAWING: dict[str, dict[str, Any]] = {
    "wasserstein": {"radial_objective": "wasserstein"},
    "reverse_kl": {"radial_objective": "reverse_kl"},
}
STILL: dict[str, dict[str, Any]] = {
    "default": {},
    "none": {"radial_objective": "none"},
    "quantiles": {"radial_objective": "wasserstein", "radial_w1_target": "quantiles"},
}
drawing = pytest.mark.parametrize("settings", DRAWING.values(), ids=DRAWING)
still = pytest.mark.parametrize("settings", STILL.values(), ids=STILL)
either = pytest.mark.parametrize("settings", [DRAWING["reverse_kl"], STILL["default"]], ids=["draws", "draws nothing"])
KEY = "objective._extra_state"


class Method(lightning.LightningModule):
    """A network with the loss inside, as the hosts' methods are."""

    def __init__(self, settings: dict[str, Any], views: tuple[Tensor, Tensor] | None = None, calls: int = 0) -> None:
        super().__init__()
        self.network = nn.Linear(2, 2)
        self.objective = RadialVICRegLoss(**settings)
        for _ in range(calls):
            self.objective(*views)  # type: ignore[misc]


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)  # type: ignore[no-any-return]


@still
def test_an_objective_that_draws_nothing_leaves_nothing(settings: dict[str, Any], views: tuple[Tensor, Tensor]) -> None:
    assert Method(settings, views, calls=2).state_dict().keys() == {"network.weight", "network.bias"}


@drawing
def test_the_number_of_draws_is_a_tensor_on_the_cpu_whatever_the_default_device(
    settings: dict[str, Any], views: tuple[Tensor, Tensor]
) -> None:
    method = Method(settings, views, calls=3)
    with torch.device("meta"):
        state = method.state_dict()[KEY]
    assert (state.device.type, state.dtype, state.shape, state.item()) == ("cpu", torch.int64, (), 3)
    assert method.objective._drawn == 3
    assert type(method.objective._drawn) is int


@drawing
def test_resumed_objective_goes_on_with_the_draws_it_would_have_had(
    settings: dict[str, Any], views: tuple[Tensor, Tensor]
) -> None:
    whole, resumed = Method(settings, views, calls=3), Method(settings)
    resumed.load_state_dict(_through_a_file(whole.state_dict()), strict=True)
    assert resumed.objective(*views) == whole.objective(*views)


@drawing
def test_loading_an_early_state_goes_back_to_its_draws(settings: dict[str, Any], views: tuple[Tensor, Tensor]) -> None:
    method = Method(settings)
    early = method.state_dict()
    first = method.objective(*views)
    method.load_state_dict(early)
    assert method.objective(*views) == first


@either
def test_checkpoints_with_the_old_int_load_strictly_and_resume(
    settings: dict[str, Any], views: tuple[Tensor, Tensor]
) -> None:
    method = Method(settings, views, calls=2)
    old = {**method.state_dict(), KEY: 2}
    resumed = Method(settings)
    resumed.load_state_dict(_through_a_file(old), strict=True)
    assert resumed.objective._drawn == 2
    assert resumed.objective(*views) == method.objective(*views)


@either
def test_checkpoints_with_nothing_load_strictly_and_leave_the_draws(
    settings: dict[str, Any], views: tuple[Tensor, Tensor]
) -> None:
    method = Method(settings, views, calls=1)
    expected = method.objective._drawn
    method.load_state_dict(Method({"radial_objective": "none"}).state_dict(), strict=True)
    assert method.objective._drawn == expected


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (-1, "expected an integer >= 0, got -1"),
        (True, "expected an integer >= 0, got True"),
        ("3", "expected an integer >= 0, got '3'"),
        (torch.tensor(-2), "expected an integer >= 0, got -2"),
        (torch.tensor(3.0), r"expected a 0-d int64 tensor, .* got torch.float32 of shape \(\) on cpu"),
        (torch.tensor([3]), r"expected a 0-d int64 tensor, .* got torch.int64 of shape \(1,\) on cpu"),
        (torch.tensor(3, device="meta"), "expected a 0-d int64 tensor, .* on meta"),
    ],
    ids=str,
)
def test_another_state_is_refused_by_name_and_changes_nothing(
    state: object, message: str, views: tuple[Tensor, Tensor]
) -> None:
    method = Method(DRAWING["wasserstein"], views, calls=1)
    with pytest.raises(RuntimeError, match=rf"{KEY}: {message}"):
        method.load_state_dict({**method.state_dict(), KEY: state})
    assert method.objective._drawn == 1


def test_other_unknown_keys_are_still_refused() -> None:
    method = Method({})
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"objective.weight"'):
        method.load_state_dict({**method.state_dict(), KEY: 0, "objective.weight": torch.zeros(1)})


@either
def test_safetensors_saves_and_loads_a_module_with_the_loss(
    settings: dict[str, Any], views: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    file = tmp_path / "module.safetensors"
    method, loaded = Method(settings, views, calls=2), Method(settings)
    safetensors.torch.save_model(method, str(file))
    safetensors.torch.load_model(loaded, str(file), strict=True)
    assert loaded.objective(*views) == method.objective(*views)


def test_the_losses_of_other_libraries_can_take_its_place(views: tuple[Tensor, Tensor]) -> None:
    """They have no state, as lightly's VICRegLoss."""
    ours, theirs = Method({}, views, calls=1), Method({})
    theirs.objective = nn.Module()  # type: ignore[assignment]
    theirs.load_state_dict(ours.state_dict(), strict=True)
    ours.load_state_dict(theirs.state_dict(), strict=True)


@pytest.mark.skipif("no_dist" not in inspect.signature(dcp.save).parameters, reason="one process needs PyTorch 2.7")
@drawing
def test_distributed_checkpoints_keep_the_draws(
    settings: dict[str, Any], views: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    method, resumed = Method(settings, views, calls=2), Method(settings)
    dcp.save(dcp_state.get_model_state_dict(method), checkpoint_id=tmp_path, no_dist=True)
    state = dcp_state.get_model_state_dict(resumed)
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)  # fills in the entries that are there
    dcp_state.set_model_state_dict(resumed, state)
    assert resumed.objective(*views) == method.objective(*views)


@pytest.mark.parametrize(
    ("settings", "old"),
    [(DRAWING["wasserstein"], False), (DRAWING["reverse_kl"], True), (STILL["default"], False), (STILL["none"], True)],
    ids=str,
)
def test_lightning_checkpoints_load_strictly_and_pass_the_check_before_a_resume(
    settings: dict[str, Any], old: bool, views: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    method = Method(settings, views, calls=2)
    trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=tmp_path)
    trainer.strategy.connect(method)
    file = tmp_path / "some.ckpt"
    trainer.save_checkpoint(file)
    content = torch.load(file, weights_only=True)
    if old:
        content["state_dict"][KEY] = 2
        torch.save(content, file)
    torch.save({"optimizer_states": [], "lr_schedulers": [], "callbacks": {}, **content}, tmp_path / "whole.ckpt")
    check_resumable(tmp_path / "whole.ckpt", Method(settings))
    resumed = Method.load_from_checkpoint(file, strict=True, settings=settings)
    assert resumed.objective(*views) == method.objective(*views)
