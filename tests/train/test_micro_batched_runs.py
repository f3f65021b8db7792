"""A run with ``optimizer.micro_batch_size`` has the weights of the same run without it, or is refused in one line."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from configs import make_config
from helpers import HOSTS, HOSTS_SOLO_SLOW, RESNET, Pretrain, assert_same_run, free_port, one_line, pull_the_plug
from hosts_fixtures import MakeConfig, fixed_loader, quiet_trainer, tiny_config  # noqa: F401
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from radial_vicreg.data.build import open_data
from radial_vicreg.errors import UserError
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.nets.micro_batches import use_micro_batches
from radial_vicreg.solo.host import choose_host
from radial_vicreg.train.micro_batches import (
    accumulation_note,
    apply_micro_batches,
    micro_batch_note,
    refuse_micro_batches,
)
from radial_vicreg.train.run import prepare

MICRO = "optimizer.micro_batch_size=3"
#: A very small network with BatchNorm.
TEST_RESNET = ["backbone.name=timm:test_resnet", "~backbone.kwargs"]
DROPPED = "backbone.kwargs.drop_path_rate=0.5"


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_ten_steps_lead_to_the_weights_of_whole_batches(
    host: str,
    tiny_config: MakeConfig,  # noqa: F811
    fixed_loader: Callable[..., DataLoader],  # noqa: F811
    quiet_trainer: Callable[..., pl.Trainer],  # noqa: F811
) -> None:
    found, small = [], 4 if host == "solo" else 0
    quick = ("probes.projector_linear=false", "probes.encoder_mlp=false")
    for more in ((), (MICRO,)):
        crops = ["radialvicreg/augmentation=cifar_multicrop"] if small else []
        config = prepare(tiny_config("radialvicreg/optimizer=adamw", *crops, *quick, f"host={host}", *more))
        pl.seed_everything(1, verbose=False)
        model = choose_host(config).build(config, open_data(config)).model
        # float64: differences of rounding would grow over the steps.
        trainer = quiet_trainer(max_epochs=1, precision="64-true")
        trainer.fit(model, fixed_loader(dtype=torch.float64, small=small))
        found.append(model.state_dict())
    whole, split = found
    assert whole.keys() == split.keys()
    for name, weight in whole.items():
        torch.testing.assert_close(split[name], weight, rtol=1e-7, atol=1e-9, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("network", [["+" + DROPPED], RESNET], ids=["drop_path", "BatchNorm"])
def test_a_resumed_run_is_the_uninterrupted_one(
    host: str, network: list[str], pretrain: Pretrain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [*network, f"host={host}", MICRO, "diagnostics.enabled=false"]
    whole = pretrain(*settings, f"runs_dir={tmp_path / 'whole'}").run
    with monkeypatch.context() as patch:
        pull_the_plug(patch, 1)
        with pytest.raises(ConnectionAbortedError):
            pretrain(*settings)
    assert_same_run(pretrain(*settings, "ckpt=last").run, whole)
    # Another size is another run: paths are dropped, and statistics taken, in each micro-batch.
    pretrain(*settings, "optimizer.micro_batch_size=4", "ckpt=last", status=2)


def with_batch_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))


def config_of(size: int | None = 3, **more: Any) -> Any:
    return make_config(optimizer__micro_batch_size=size, **more)


ON_TWO_GPUS = {"devices": [0, 1], "accelerator": "gpu", "precision": "32", "sync_batchnorm": True}


def test_synchronised_batch_norm_is_refused_where_several_processes_would_have_it() -> None:
    for size, backbone, more in [
        (3, with_batch_norm(), {**ON_TWO_GPUS, "devices": [0]}),
        (3, with_batch_norm(), {**ON_TWO_GPUS, "accelerator": "cpu"}),  # where PyTorch has none
        (3, with_batch_norm(), {**ON_TWO_GPUS, "sync_batchnorm": False}),
        (3, nn.Sequential(nn.LayerNorm(3)), ON_TWO_GPUS),
        (None, with_batch_norm(), ON_TWO_GPUS),
    ]:
        refuse_micro_batches(config_of(size, **more), backbone)
    said = "micro_batch_size=3 with sync_batchnorm=true: BatchNorm layers of resnet18 would exchange .* 2 processes"
    with pytest.raises(UserError, match=said):
        apply_micro_batches(config_of(**ON_TWO_GPUS), with_batch_norm())
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(with_batch_norm())
    with pytest.raises(UserError, match=said):
        refuse_micro_batches(config_of(**{**ON_TWO_GPUS, "sync_batchnorm": False}), converted)


@pytest.mark.parametrize("host", HOSTS_SOLO_SLOW)
def test_a_size_too_small_for_batch_norm_is_refused_before_anything_is_written(host: str, pretrain: Pretrain) -> None:
    refused = pretrain(*RESNET, f"host={host}", "optimizer.micro_batch_size=2", status=2)
    one_line(refused.stderr, "optimizer.micro_batch_size=2 is too small for the BatchNorm layers of resnet18")
    assert not refused.folder.exists()


def test_whose_statistics_batch_norm_has_and_what_accumulates_is_said() -> None:
    note = micro_batch_note(config_of(3, optimizer__batch_size=8), with_batch_norm())
    assert "statistics of at most 3 images, not of 8" in (note or "")
    assert micro_batch_note(config_of(8, optimizer__batch_size=8), with_batch_norm()) is None
    assert micro_batch_note(config_of(3, optimizer__batch_size=8), nn.LayerNorm(3)) is None
    note = accumulation_note(config_of(None, optimizer__batch_size=8, accumulate_grad_batches=4))
    assert (note or "").endswith("one batch of all is optimizer.batch_size=32 optimizer.micro_batch_size=8 without it")
    assert accumulation_note(config_of(None)) is None


def test_a_check_and_the_start_of_a_run_say_it(pretrain: Pretrain) -> None:
    for more in ("--check", "max_epochs=1"):
        said = pretrain(*TEST_RESNET, MICRO, "diagnostics.enabled=false", more).stdout
        assert said.count("statistics of at most 3 images, not of 8") == 1
        assert ("global batch 8, the backbone sees at most 3 at a time, optimizer.lr" in said) == (more == "--check")


# Two processes


GLOBAL_BATCH = 14


def _network() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 36, 6))
    return backbone.double(), nn.Linear(6, 5).double()


def _gradients(model: nn.Module, views: list[Tensor]) -> list[Tensor]:
    RadialVICRegLoss()(*(model(view) for view in views)).backward()
    return [parameter.grad for parameter in model.parameters()]  # type: ignore[misc]


def _views() -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(GLOBAL_BATCH, 3, 8, 8, generator=generator, dtype=torch.float64)
    return [images, images + 0.2 * torch.randn(images.shape, generator=generator, dtype=torch.float64)]


def _process(rank: int, port: int, found: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    backbone, projector = _network()
    use_micro_batches(backbone, 1 if rank else 5)  # seven parts on one process, two on the other: unequal timing
    model = DistributedDataParallel(nn.Sequential(backbone, projector))
    half = GLOBAL_BATCH // 2
    found[rank] = [gradient.tolist() for gradient in _gradients(model, [v[rank * half :][:half] for v in _views()])]
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_have_the_gradient_of_one() -> None:
    with multiprocessing.get_context("spawn").Manager() as manager:
        found = manager.dict()
        mp.spawn(_process, args=(free_port(), found), nprocs=2)
        of_each = [[torch.tensor(gradient, dtype=torch.float64) for gradient in found[rank]] for rank in range(2)]
    expected = _gradients(nn.Sequential(*_network()), _views())
    for gradients in of_each:
        for gradient, wanted in zip(gradients, expected, strict=True):
            torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-12)
