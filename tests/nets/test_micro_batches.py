"""A backbone that sees a few images at a time is the same backbone: features, gradients, buffers, random numbers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import timm
import torch
from objectives import CASES
from torch import Tensor, nn

from benchmarks.runner import peak_extra_bytes
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.networks import BACKBONES, SOLO_BACKBONES, sees_single_images
from radial_vicreg.nets.micro_batches import has_batch_norm, use_micro_batches

IMAGES = 10
SIZE = 3  # of a micro-batch: 3 + 3 + 2 + 2
PARTS = 4


def network(norm: nn.Module, *more: nn.Module) -> nn.Sequential:
    torch.manual_seed(1)
    layers = (nn.Conv2d(3, 4, 3, stride=2), norm, nn.Tanh(), *more, nn.AdaptiveAvgPool2d(2), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(16, 6)).double()


@pytest.fixture
def backbone() -> nn.Sequential:
    """Without statistics of the batch."""
    return network(nn.GroupNorm(2, 4))


@pytest.fixture(scope="module")
def projector() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5)).double()


@pytest.fixture(scope="module")
def views() -> list[Tensor]:
    """Two large ones and a small one."""
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(IMAGES, 3, 12, 12, generator=generator, dtype=torch.float64)
    return [images, images + 0.2 * torch.randn(images.shape, generator=generator), images[:, :, ::2, ::2]]


def chunked(backbone: nn.Module, size: int = SIZE) -> nn.Module:
    copied = copy.deepcopy(backbone)
    use_micro_batches(copied, size)
    return copied


def gradients(
    backbone: nn.Module, projector: nn.Module, loss: Callable[..., Tensor], views: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The loss of a step and its gradients of all weights; the loss draws what it draws alike in each call."""
    z = [projector(backbone(view)) for view in views]
    torch.manual_seed(4)
    value = loss(*z)
    return value.detach(), list(torch.autograd.grad(value, [*backbone.parameters(), *projector.parameters()]))


def assert_close(found: tuple[Tensor, list[Tensor]], expected: tuple[Tensor, list[Tensor]], scale: float) -> None:
    """A gradient is compared with the largest of all: that of a bias before a BatchNorm is nothing but rounding."""
    torch.testing.assert_close(found[0], expected[0], rtol=1e-12, atol=0)
    largest = max(float(gradient.abs().max()) for gradient in expected[1])
    for one, two in zip(found[1], expected[1], strict=True):
        assert float((one - two).abs().max()) <= scale * largest


def of_a_users_own(*views: Tensor) -> Tensor:
    """Negatives: every pair of the batch counts."""
    one, two = (nn.functional.normalize(view) for view in views[:2])
    return nn.functional.cross_entropy(one @ two.T / 0.1, torch.arange(len(one)))


LOSSES: dict[str, Callable[[], Callable[..., Tensor]]] = {
    **{name: lambda case=case: RadialVICRegLoss(**case) for name, case in CASES.items()},  # type: ignore[misc]
    "contrastive": lambda: of_a_users_own,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_of_each_loss_is_that_of_the_whole_batch(
    name: str, backbone: nn.Module, projector: nn.Module, views: list[Tensor]
) -> None:
    whole, split = (gradients(each, projector, LOSSES[name](), views) for each in (backbone, chunked(backbone)))
    assert float(max(gradient.abs().max() for gradient in whole[1])) > 1e-3
    # An entropy divides by small spacings of radii, which magnifies what rounding has left of them.
    assert_close(split, whole, scale=1e-12)


def test_a_micro_batch_has_at_most_so_many_images_and_parts_are_even(backbone: nn.Module, views: list[Tensor]) -> None:
    seen: list[int] = []
    backbone[0].register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    split = chunked(backbone)
    split(views[0]).sum().backward()
    assert seen == [3, 3, 2, 2, 2, 2, 3, 3]  # the second pass goes from the last to the first
    seen.clear()
    with torch.no_grad():
        assert len(split(views[0])) == IMAGES
        assert split(views[0][:0]).shape == (0, 6)
        assert torch.equal(split(views[0][:2]), backbone(views[0][:2]))
    assert seen[:PARTS] == [3, 3, 2, 2]


def test_activations_of_one_micro_batch_are_held_at_a_time(backbone: nn.Module) -> None:
    images = torch.randn(64, 3, 24, 24, dtype=torch.float64)

    def peak(network: nn.Module) -> int:
        return peak_extra_bytes(lambda: network(images).sum().backward())

    assert peak(chunked(backbone, 4)) < peak(backbone) / 8


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_statistics_count_each_micro_batch_once(momentum: float | None, views: list[Tensor]) -> None:
    expected = network(nn.BatchNorm2d(4, momentum=momentum))
    split = chunked(expected)
    buffers = dict(split.named_buffers())
    split(views[0]).square().sum().backward()
    for part in views[0].tensor_split(PARTS):
        expected(part)
    assert int(split[1].num_batches_tracked) == PARTS
    for name, buffer in split.named_buffers():
        assert buffer is buffers[name]  # DDP and Lightning hold them
        torch.testing.assert_close(buffer, expected.get_buffer(name), rtol=0, atol=0)


def test_an_error_in_the_second_pass_leaves_the_buffers(views: list[Tensor]) -> None:
    split = chunked(network(nn.BatchNorm2d(4)))
    loss = split(views[0]).sum()
    before = dict(split.named_buffers())
    split[1].register_forward_pre_hook(lambda *_: pytest.fail("stopped"))
    with pytest.raises(pytest.fail.Exception, match="stopped"):
        loss.backward()
    assert all(buffer is before[name] for name, buffer in split.named_buffers())


def test_the_second_pass_draws_the_random_numbers_of_the_first(views: list[Tensor]) -> None:
    plain = network(nn.BatchNorm2d(4), nn.Dropout(0.5), timm.layers.DropPath(0.5))
    split = chunked(plain)
    torch.manual_seed(5)
    found = split(views[0])
    after = torch.rand(1)
    torch.manual_seed(5)
    expected = torch.cat([plain(part) for part in views[0].tensor_split(PARTS)])
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(found, expected)
    found.square().sum().backward()
    drawn = torch.rand(1)
    expected.square().sum().backward()
    for one, two in zip(split.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-12, atol=1e-13)
    torch.manual_seed(5)
    split(views[0]), torch.rand(1)
    assert torch.equal(torch.rand(1), drawn)  # the backward pass takes none from what comes next


def test_copies_and_pickles_have_micro_batches_of_their_own(backbone: nn.Module, views: list[Tensor]) -> None:
    before = list(backbone.state_dict())
    use_micro_batches(backbone, SIZE)
    assert type(backbone) is nn.Sequential
    expected = backbone(views[0])
    for other in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        assert list(other.state_dict()) == before
        with torch.no_grad():
            other[-1].bias += 1
        sizes: list[int] = []
        other[0].register_forward_hook(lambda module, inputs, output, sizes=sizes: sizes.append(len(inputs[0])))
        torch.testing.assert_close(other(views[0]), expected + 1)
        assert sizes == [3, 3, 2, 2]
    assert torch.equal(backbone(views[0]), expected)


def test_channels_last_autocast_and_the_scaler_reach_each_part(backbone: nn.Module, views: list[Tensor]) -> None:
    backbone = backbone.float().to(memory_format=torch.channels_last)
    seen: list[tuple[bool, torch.dtype]] = []

    backbone[0].register_forward_hook(
        lambda module, inputs, output: seen.append(
            (inputs[0].is_contiguous(memory_format=torch.channels_last), output.dtype)
        )
    )
    images = views[0].float().contiguous(memory_format=torch.channels_last)
    found = []
    for each in (backbone, chunked(backbone)):
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        with torch.autocast("cpu", torch.float16):
            loss = each(images).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        found.append(list(each.parameters()))
    assert seen == [(True, torch.float16)] * (1 + 2 * PARTS)
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-3)  # narrow gradients, summed in another order


@pytest.mark.slow
def test_a_compiled_backbone_has_the_same_gradient(backbone: nn.Module, views: list[Tensor]) -> None:
    split = chunked(backbone)
    split.compile(backend="eager")
    assert_same_gradients(split, backbone, views[0])


def test_timms_gradient_checkpointing_works_within() -> None:
    sizes = {"img_size": 32, "depth": 2, "embed_dim": 24, "num_heads": 1}
    whole = timm.create_model("vit_tiny_patch16_224", num_classes=0, **sizes).double()
    split = chunked(whole, 4)
    split.set_grad_checkpointing()
    assert_same_gradients(split, whole, torch.randn(6, 3, 32, 32, dtype=torch.float64))


def assert_same_gradients(found: nn.Module, expected: nn.Module, images: Tensor) -> None:
    for each in (found, expected):
        each(images).square().sum().backward()
    for one, two in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-10, atol=1e-12)


# What is known of a backbone by its name


def draws_or_counts(backbone: nn.Module) -> bool:
    """Whether a module has statistics of the batch or draws random numbers."""
    rates = ("p", "drop_prob", "prob")
    drops = (module for module in backbone.modules() if "drop" in type(module).__name__.lower())
    return has_batch_norm(backbone) or any(getattr(module, rate, 0) for module in drops for rate in rates)


def test_backbones_that_see_single_images_are_known_by_name() -> None:
    vits = {name for name in BACKBONES if name.startswith("vit")}
    assert {name for name in BACKBONES if sees_single_images(name, {})} == vits
    sized = {"img_size": 32, "dynamic_img_size": True, "drop_path_rate": 0.0}
    for name in ("timm:vit_small_patch14_dinov2", "timm:convnext_tiny", "convnext_tiny", "poolformer_s12"):
        assert sees_single_images(name, {}), name
    assert sees_single_images("vit_large", sized)
    for name in ("wide_resnet28w2", "timm:resnet10t", "timm:vit_base_resnet50d_224", "timm:vit_base_mci_224"):
        assert not sees_single_images(name, {}), name
    for changed in ({"drop_path_rate": 0.1}, {"norm_layer": "batchnorm2d"}):
        assert not sees_single_images("vit_tiny", changed), changed


@pytest.mark.slow
def test_backbones_that_see_single_images_by_name_do_so() -> None:
    names = [name for name in timm.list_models() if sees_single_images(f"timm:{name}", {})]
    assert len(names) > 200
    # Each tenth, since all of them take minutes; all were tried with timm 1.0.31.
    with torch.device("meta"):
        assert [name for name in names[::10] if draws_or_counts(timm.create_model(name, num_classes=0))] == []


@pytest.mark.slow
@pytest.mark.solo
def test_backbones_of_solo_learn_that_see_single_images_by_name_do_so() -> None:
    methods = pytest.importorskip("solo.methods.base")
    for name in SOLO_BACKBONES:
        if sees_single_images(name, {}):
            assert not draws_or_counts(methods.BaseMethod._BACKBONES[name]("vicreg")), name
