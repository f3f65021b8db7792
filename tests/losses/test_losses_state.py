"""What the objective leaves in a state_dict: nothing, or the number of calls that drew."""

from __future__ import annotations

import inspect
import io
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from objectives import CASES, DRAWING
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as dcp_state

from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.runs.checkpoints import check_resumable

Views = tuple[Tensor, Tensor]

drawing = pytest.mark.parametrize("name", DRAWING)
either = pytest.mark.parametrize("name", ["reverse_kl", "kl"], ids=["draws", "draws nothing"])
KEY = "objective._extra_state"


class Method(nn.Module):
    """A network with the loss inside, as the hosts' methods are."""

    def __init__(self, name: str, views: Views | None = None, calls: int = 0) -> None:
        super().__init__()
        self.network = nn.Linear(2, 2)
        self.objective = RadialVICRegLoss(**CASES[name])
        for _ in range(calls):
            self.objective(*views)  # type: ignore[misc]


def _through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [name for name in CASES if name not in DRAWING])
def test_an_objective_that_draws_nothing_leaves_nothing(name: str, views: Views) -> None:
    assert Method(name, views, calls=2).state_dict().keys() == {"network.weight", "network.bias"}


@drawing
def test_the_number_of_draws_is_a_tensor_on_the_cpu_whatever_the_default_device(name: str, views: Views) -> None:
    method = Method(name, views, calls=3)
    with torch.device("meta"):
        state = method.state_dict()[KEY]
    assert (state.device.type, state.dtype, state.shape, state.item()) == ("cpu", torch.int64, (), 3)


@drawing
def test_a_loaded_objective_goes_on_with_the_draws_it_would_have_had(name: str, views: Views) -> None:
    whole, resumed = Method(name, views, calls=3), Method(name)
    early = whole.state_dict()
    resumed.load_state_dict(_through_a_file(early), strict=True)
    expected = whole.objective(*views)
    assert resumed.objective(*views) == expected
    whole.load_state_dict(early)  # also one that has drawn since
    assert whole.objective(*views) == expected


@either
def test_checkpoints_with_the_old_int_or_with_nothing_load_strictly(name: str, views: Views) -> None:
    method = Method(name, views, calls=2)
    resumed = Method(name)
    resumed.load_state_dict(_through_a_file({**method.state_dict(), KEY: 2}), strict=True)
    resumed.load_state_dict(Method("none").state_dict(), strict=True)  # leaves the draws
    assert resumed.objective(*views) == method.objective(*views)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (-1, "expected an integer >= 0, got -1"),
        (True, "expected an integer >= 0, got True"),
        (torch.tensor(3.0), r"expected a 0-d int64 tensor, .* got torch.float32 of shape \(\) on cpu"),
        (torch.tensor([3]), r"expected a 0-d int64 tensor, .* got torch.int64 of shape \(1,\) on cpu"),
        (torch.tensor(3, device="meta"), "expected a 0-d int64 tensor, .* on meta"),
    ],
    ids=str,
)
def test_another_state_is_refused_by_name_and_changes_nothing(state: object, message: str, views: Views) -> None:
    method = Method("wasserstein", views, calls=1)
    before = method.state_dict()
    with pytest.raises(RuntimeError, match=rf"{KEY}: {message}"):
        method.load_state_dict({**before, KEY: state})
    assert method.state_dict()[KEY] == before[KEY]


def test_other_unknown_keys_are_still_refused() -> None:
    method = Method("kl")
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"objective.weight"'):
        method.load_state_dict({**method.state_dict(), KEY: 0, "objective.weight": torch.zeros(1)})


@either
def test_safetensors_saves_and_loads_a_module_with_the_loss(name: str, views: Views, tmp_path: Path) -> None:
    file = tmp_path / "module.safetensors"
    method, loaded = Method(name, views, calls=2), Method(name)
    safetensors.torch.save_model(method, str(file))
    safetensors.torch.load_model(loaded, str(file), strict=True)
    assert loaded.objective(*views) == method.objective(*views)


@pytest.mark.skipif("no_dist" not in inspect.signature(dcp.save).parameters, reason="one process needs PyTorch 2.7")
def test_distributed_checkpoints_keep_the_draws(views: Views, tmp_path: Path) -> None:
    method, resumed = Method("wasserstein", views, calls=2), Method("wasserstein")
    dcp.save(dcp_state.get_model_state_dict(method), checkpoint_id=tmp_path, no_dist=True)
    state = dcp_state.get_model_state_dict(resumed)
    dcp.load(state, checkpoint_id=tmp_path, no_dist=True)  # fills in the entries that are there
    dcp_state.set_model_state_dict(resumed, state)
    assert resumed.objective(*views) == method.objective(*views)


@either
def test_the_check_before_a_resume_takes_states_of_now_and_the_old_int(name: str, views: Views, tmp_path: Path) -> None:
    state = Method(name, views, calls=2).state_dict()
    for content in (state, {**state, KEY: 2}):
        training = {"optimizer_states": [], "lr_schedulers": [], "callbacks": {}, "loops": {}, "state_dict": content}
        torch.save({**training, "epoch": 1, "global_step": 2}, tmp_path / "some.ckpt")
        check_resumable(tmp_path / "some.ckpt", Method(name))
