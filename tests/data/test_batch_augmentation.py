"""Crops made on the device agree with Pillow's pipeline in distribution, and Pillow's are solo-learn's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from configs import make_config, solo_form
from PIL import Image
from torch import Tensor
from torchvision.transforms import RandomResizedCrop

from radial_vicreg.config import AugmentationConfig
from radial_vicreg.data import batch_augmentation
from radial_vicreg.data.augmentation import build_augmentation
from radial_vicreg.data.batch_augmentation import BatchAugmentation, random_boxes

SIGMAS = 4.5  # some 60 comparisons a test: by chance one of 2,000 such tests would fail, and the seeds are fixed


def augmentation(**changes: Any) -> AugmentationConfig:
    """Appendix E's pipeline; keyword arguments are dotted keys, written with `__`."""
    off = {"gaussian_blur__prob": 0.0, "equalization__prob": 0.0, "solarization__prob": 0.1}
    settings = {f"augmentations__0__{key}": value for key, value in {**off, **changes}.items()}
    return make_config(**settings).augmentations[0]


def only(operation: str, prob: float = 1.0) -> AugmentationConfig:
    """Nothing but one operation."""
    names = ("color_jitter", "grayscale", "gaussian_blur", "solarization", "equalization", "horizontal_flip")
    return augmentation(rrc__enabled=False, **{f"{name}__prob": prob if name == operation else 0.0 for name in names})


def picture(size: int = 32, seed: int = 0) -> Image.Image:
    """Smooth colours, darker to the left, with a sharp square."""
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8)).resize((size, size), Image.BICUBIC)
    pixels = np.asarray(image) * np.linspace(0.3, 1, size)[None, :, None]
    pixels[size // 8 : size // 3, size // 2 : -size // 5] = (230, 40, 90)
    return Image.fromarray(pixels.astype(np.uint8))


def batch(image: Image.Image, count: int = 1) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).expand(count, 3, *image.size[::-1])


# ---- distribution ----


def statistics(crops: Tensor) -> Tensor:
    """What describes a crop: levels, contrast, quantiles, colour, smoothness, left against right."""
    grey = crops.mean(dim=1)
    flat = grey.flatten(1)
    half = crops.shape[-1] // 2
    return torch.stack(
        [
            *crops.mean(dim=(2, 3)).unbind(1),
            *crops.var(dim=(2, 3)).unbind(1),
            *flat.quantile(torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95]), dim=1).unbind(0),
            (crops[:, 0] - crops[:, 1]).abs().mean(dim=(1, 2)),
            (crops[:, 1] - crops[:, 2]).abs().mean(dim=(1, 2)),
            (crops.amax(dim=1) - crops.amin(dim=1)).amax(dim=(1, 2)),
            (grey[:, 1:] - grey[:, :-1]).square().mean(dim=(1, 2)),
            (grey[:, :, 1:] - grey[:, :, :-1]).square().mean(dim=(1, 2)),
            (grey[:, :, 1:] * grey[:, :, :-1]).mean(dim=(1, 2)),
            (grey[..., :half].mean(dim=(1, 2)) > grey[..., half:].mean(dim=(1, 2))).float(),
        ],
        dim=1,
    )


def assert_same_distribution(found: Tensor, expected: Tensor) -> None:
    """Compares means and mean squares of every statistic within their standard errors."""
    for power in (1, 2):
        a, b = found.double() ** power, expected.double() ** power
        error = torch.sqrt(a.var(dim=0) / len(a) + b.var(dim=0) / len(b))
        deviation = (a.mean(dim=0) - b.mean(dim=0)).abs() / error.clamp(min=1e-12)
        worst = int(deviation.argmax())
        assert deviation[worst] < SIGMAS, f"statistic {worst}, power {power}: {deviation[worst]:.1f} standard errors"


PIPELINES = {
    "paper": (32, {}),
    "all operations": (32, {"gaussian_blur__prob": 0.5, "equalization__prob": 0.3, "solarization__prob": 0.3}),
    "mostly reduced": (64, {"rrc__crop_min_scale": 0.5, "color_jitter__hue": 0.0}),
}


@pytest.mark.parametrize("draws", [300, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pipeline", [*PIPELINES, "all operations, as on a GPU"])
def test_crops_agree_with_pillows_pipeline_in_distribution(
    pipeline: str, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pipeline.endswith("as on a GPU"):  # operations run on all images and take effect on some
        monkeypatch.setattr(batch_augmentation, "_GATHERING_DEVICES", ())
    size, changes = PIPELINES[pipeline.removesuffix(", as on a GPU")]
    settings, image = augmentation(**changes), picture(size)
    pillow = build_augmentation("custom", settings)
    expected = statistics(torch.stack([pillow(image) for _ in range(draws)]))
    augment = BatchAugmentation("custom", settings)
    found = torch.cat([statistics(augment(batch(image, 100))) for _ in range(draws // 50)])
    assert_same_distribution(found, expected)


@pytest.mark.parametrize("change", [{"color_jitter__prob": 0.0}, {"rrc__crop_min_scale": 0.5}], ids=["jitter", "crop"])
def test_the_comparison_of_distributions_notices_another_setting(change: dict[str, float]) -> None:
    image = batch(picture(), 600)
    both = (augmentation(), augmentation(**change))
    draws = [statistics(BatchAugmentation("custom", settings)(image)) for settings in both]
    with pytest.raises(AssertionError, match="standard errors"):
        assert_same_distribution(*draws)


@pytest.mark.parametrize("operation", ["grayscale", "solarization", "equalization", "horizontal_flip", "gaussian_blur"])
def test_an_operation_meets_its_share_of_the_images(operation: str) -> None:
    prob, draws = 0.3, 1000
    image = batch(picture(), draws)
    untouched = BatchAugmentation("custom", only("nothing"))(image[:1])
    changed = (BatchAugmentation("custom", only(operation, prob))(image) != untouched).flatten(1).any(dim=1)
    assert abs(float(changed.float().mean()) - prob) < SIGMAS * (prob * (1 - prob) / draws) ** 0.5


@pytest.mark.parametrize(
    ("height", "width", "scale"), [(32, 32, (0.5, 0.5)), (40, 100, (0.08, 1.0)), (90, 30, (0.5, 1.0))]
)
def test_boxes_are_torchvisions(height: int, width: int, scale: tuple[float, float]) -> None:
    image = Image.new("L", (width, height))
    expected = torch.tensor([RandomResizedCrop.get_params(image, list(scale), [3 / 4, 4 / 3]) for _ in range(2000)])
    found = random_boxes(20_000, height, width, scale, torch.device("cpu"))
    assert torch.equal(found, found.floor())
    assert bool((found[:, 0] + found[:, 2] <= height).all() and (found[:, 1] + found[:, 3] <= width).all())
    assert bool((found[:, :2] >= 0).all() and (found[:, 2:] >= 1).all())
    moments = [
        torch.cat([boxes, boxes[:, 2:3] * boxes[:, 3:4], boxes[:, 3:4] / boxes[:, 2:3]], dim=1)
        for boxes in (found, expected.float())
    ]
    assert_same_distribution(*moments)


@pytest.mark.parametrize(("height", "width"), [(10, 200), (200, 10)])
def test_images_too_long_for_any_box_give_torchvisions_centre(height: int, width: int) -> None:
    expected = RandomResizedCrop.get_params(Image.new("L", (width, height)), [0.9, 1.0], [3 / 4, 4 / 3])
    assert random_boxes(5, height, width, (0.9, 1.0), torch.device("cpu")).tolist() == [list(map(float, expected))] * 5


def test_every_image_and_every_crop_has_draws_of_its_own() -> None:
    crops = BatchAugmentation("custom", augmentation())(batch(picture(), 40))
    assert len({tuple(row) for row in statistics(crops).tolist()}) == 40


# ---- without chance ----


@pytest.mark.parametrize("size", [(32, 32), (48, 40), (20, 30)])
def test_without_random_operations_the_pipeline_is_pillows(size: tuple[int, int]) -> None:
    image = picture(64).resize(size)
    expected = build_augmentation("cifar10", only("nothing"))(image)
    found = BatchAugmentation("cifar10", only("nothing"))(batch(image))[0]
    assert found.shape == expected.shape
    level = 1 / 255 / 0.24
    assert float(((found - expected).abs() > 1.01 * level).float().mean()) < 1e-3


def test_a_mirrored_solarized_grey_image_is_pillows() -> None:
    settings = augmentation(
        rrc__enabled=False, color_jitter__prob=0, grayscale__prob=1, solarization__prob=1, horizontal_flip__prob=1
    )
    expected = build_augmentation("custom", settings)(picture())
    assert torch.allclose(BatchAugmentation("custom", settings)(batch(picture()))[0], expected, atol=1e-6)


@pytest.mark.gpu
def test_crops_on_a_gpu_agree_with_those_of_the_cpu_in_distribution() -> None:
    augment: Callable[[Tensor], Tensor] = BatchAugmentation("custom", augmentation(gaussian_blur__prob=0.5))
    image = batch(picture(), 4000)
    on_cpu = statistics(augment(image))
    assert_same_distribution(statistics(augment(image.cuda()).cpu()), on_cpu)


# ---- by Pillow ----


OPERATIONS = ("color_jitter", "grayscale", "gaussian_blur", "solarization", "equalization", "horizontal_flip")
IMAGE = Image.effect_noise((50, 40), 60).convert("RGB")


def seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def assert_crop_is_solo_learns(name: str, draw: int, **settings: object) -> None:
    pretrain = pytest.importorskip("solo.data.pretrain_dataloader")
    config = make_config(**{f"augmentations__0__{key}": value for key, value in settings.items()})
    seed(draw)
    ours = build_augmentation(name, config.augmentations[0])(IMAGE)
    seed(draw)
    theirs = pretrain.build_transform_pipeline(name, solo_form(config).augmentations[0])(IMAGE)
    assert torch.equal(ours, theirs), f"{name}, draw {draw}, {settings}"


@pytest.mark.solo
@pytest.mark.parametrize("cropped", [True, False])
def test_crops_of_every_named_dataset_equal_solo_learns(cropped: bool) -> None:
    for name in ("cifar10", "cifar100", "imagenet", "imagenet100", "custom"):
        assert_crop_is_solo_learns(name, 1, rrc__enabled=cropped)


@pytest.mark.solo
@pytest.mark.parametrize("rare", range(len(OPERATIONS)), ids=OPERATIONS)
def test_every_operation_has_its_own_probability_as_solo_learns(rare: int) -> None:
    probabilities = {f"{name}__prob": 0.5 + 0.08 * (index - rare) for index, name in enumerate(OPERATIONS)}
    for probability in (0.0, 0.05):  # one that is off draws no random numbers
        for draw in range(6):
            assert_crop_is_solo_learns("custom", draw, **{**probabilities, f"{OPERATIONS[rare]}__prob": probability})


def test_absent_operations_are_off() -> None:
    bare = make_config(augmentations=[{"crop_size": 32, "num_crops": 2, "rrc": {"enabled": False}}]).augmentations[0]
    plain = build_augmentation("cifar10", bare)
    assert len(plain.transforms) == 3
    assert torch.equal(plain(IMAGE), plain(IMAGE))
