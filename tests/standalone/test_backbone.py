from __future__ import annotations

from typing import Any

import pytest
import torch

from radial_vicreg.models import apply_small_stem, build_backbone, uses_small_stem

TINY_VIT = {"patch_size": 4, "img_size": 32}


@pytest.mark.parametrize(
    ("name", "kwargs", "features"),
    [
        ("resnet18", {}, 512),
        ("resnet50", {}, 2048),
        ("vit_tiny", TINY_VIT, 192),
        ("vit_small", TINY_VIT, 384),
        ("vit_base", {**TINY_VIT, "depth": 1}, 768),
    ],
)
def test_features_have_the_reported_width(make_cfg: Any, name: str, kwargs: dict[str, int], features: int) -> None:
    backbone, width = build_backbone(make_cfg(backbone__name=name, backbone__kwargs=kwargs))
    with torch.no_grad():
        out = backbone.eval()(torch.zeros(2, 3, 32, 32))
    assert width == features
    assert out.shape == (2, features)


@pytest.mark.parametrize(
    ("dataset", "choice", "expected"),
    [
        ("cifar10", "auto", True),
        ("cifar100", "auto", True),
        ("custom", "auto", False),
        ("custom", True, True),
        ("custom", "true", True),
        ("cifar10", False, False),
        ("cifar10", None, True),
    ],
)
def test_stem_follows_the_dataset_name_unless_overridden(
    make_cfg: Any, dataset: str, choice: Any, expected: bool
) -> None:
    cfg = make_cfg(data__dataset=dataset)
    if choice is not None:
        cfg.method_kwargs.small_image_stem = choice
    assert uses_small_stem(cfg) is expected
    backbone, _ = build_backbone(cfg)
    assert (tuple(backbone.conv1.kernel_size) == (3, 3)) is expected


def test_unknown_stem_choice_is_named(make_cfg: Any) -> None:
    with pytest.raises(ValueError, match=r"small_image_stem='tiny'.*auto, true or false"):
        uses_small_stem(make_cfg(method_kwargs__small_image_stem="tiny"))


def test_small_stem_keeps_the_resolution(make_cfg: Any) -> None:
    backbone, _ = build_backbone(make_cfg())
    small = apply_small_stem(backbone)
    out = small.maxpool(small.conv1(torch.zeros(1, 3, 32, 32)))
    assert out.shape == (1, 64, 34, 34)  # padding 2 adds a pixel on each side


def test_unknown_backbone_lists_the_known_and_the_nearest(make_cfg: Any) -> None:
    with pytest.raises(ValueError, match=r"'resnet_18'.*resnet18, resnet50, vit_tiny.*nearest: resnet18"):
        build_backbone(make_cfg(backbone__name="resnet_18"))


def test_backbone_arguments_that_do_not_fit_are_named(make_cfg: Any) -> None:
    with pytest.raises(ValueError, match=r"patch_size.*do not fit resnet18"):
        build_backbone(make_cfg(backbone__kwargs={"patch_size": 4}))


@pytest.mark.solo
@pytest.mark.parametrize(
    ("name", "kwargs", "dataset"),
    [
        ("resnet18", {}, "cifar10"),
        ("resnet18", {"zero_init_residual": True}, "custom"),
        ("vit_tiny", TINY_VIT, "cifar10"),
    ],
)
def test_weights_equal_solo_learns_under_the_same_seed(
    make_cfg: Any, name: str, kwargs: dict[str, Any], dataset: str
) -> None:
    base = pytest.importorskip("solo.methods.base")
    cfg = make_cfg(backbone__name=name, backbone__kwargs=kwargs, data__dataset=dataset)
    torch.manual_seed(3)
    backbone, features = build_backbone(cfg)
    classifier = torch.nn.Linear(features, 10)

    cfg.data.update({"num_classes": 10, "num_large_crops": 2, "num_small_crops": 0})
    torch.manual_seed(3)
    solo = base.BaseMethod(cfg)

    assert features == solo.features_dim
    assert backbone.state_dict().keys() == solo.backbone.state_dict().keys()
    for key, value in solo.backbone.state_dict().items():
        assert torch.equal(backbone.state_dict()[key], value), key
    assert torch.equal(classifier.weight, solo.classifier.weight)
    # Names alone would not show a difference in stride, pooling or padding.
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(backbone.eval()(images), solo.backbone.eval()(images))
