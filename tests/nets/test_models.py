"""Backbones have solo-learn's weights, names and stems."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from configs import make_config, solo_form

from radial_vicreg.errors import UserError
from radial_vicreg.nets.models import build_backbone, build_encoder, check_backbone

TINY_VIT = {"patch_size": 4, "img_size": 32}


@pytest.mark.parametrize(
    ("name", "kwargs", "features"),
    [
        ("vit_base", {**TINY_VIT, "depth": 1}, 768),
        ("timm:test_resnet", {}, 96),
        ("timm:resnet18", {"channels": (8, 8, 16, 16)}, 16),
        ("timm:mobilenetv3_small_050", {}, 1024),  # its last layer comes after the pooling
    ],
)
def test_features_have_the_reported_width(name: str, kwargs: dict[str, int], features: int) -> None:
    backbone, width = build_backbone(make_config(backbone__name=name, backbone__kwargs=kwargs))
    with torch.no_grad():
        out = backbone.eval()(torch.zeros(2, 3, 32, 32))
    assert width == features
    assert out.shape == (2, features)


def test_stem_follows_the_dataset_name_unless_overridden() -> None:
    for dataset, choice, expected in (
        ("cifar100", "auto", True),
        ("cifar10", None, True),
        ("cifar10", False, False),
        ("custom", "auto", False),
        ("custom", "true", True),
    ):
        chosen = {} if choice is None else {"method_kwargs__small_image_stem": choice}
        assert make_config(data__dataset=dataset, **chosen).has_small_stem is expected, (dataset, choice)


def test_small_stem_keeps_the_resolution() -> None:
    backbone, _ = build_backbone(make_config(data__dataset="custom"))
    assert tuple(backbone.conv1.kernel_size) == (7, 7)
    small, _ = build_backbone(make_config(data__dataset="cifar10"))
    out = small.maxpool(small.conv1(torch.zeros(1, 3, 32, 32)))
    assert out.shape == (1, 64, 34, 34)  # padding 2 adds a pixel on each side


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:resnet81", r"unknown backbone.name 'timm:resnet81': did you mean timm:resnet\d+"),
        ("timm:hf-hub:somebody/model", "unknown backbone.name 'timm:hf-hub:somebody/model'"),
        ("resnet_18", r"unknown backbone.name 'resnet_18': did you mean resnet18\?"),
        ("alexnet", "'alexnet': expected one of: resnet18, resnet50, vit_base.*vit_tiny"),
    ],
)
def test_unknown_backbones_are_refused_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_backbone(make_config(backbone__name=name))


@pytest.mark.parametrize(
    ("name", "kwargs", "message"),
    [
        ("timm:resnet18", {"pretrained": True}, "backbone.kwargs.pretrained would load weights"),
        ("vit_tiny", {"checkpoint_path": "x"}, "backbone.kwargs.checkpoint_path would load weights from another"),
        ("resnet18", {"patch_size": 4}, "patch_size.*do not fit resnet18"),
        ("vit_tiny", {"img_size": 33, "patch_size": 4, "depth": 1}, "does not accept images of 32 pixels"),
        ("timm:vit_tiny_patch16_224", {}, "timm:vit_tiny_patch16_224 .*does not accept images of 32 pixels"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_built(name: str, kwargs: dict[str, Any], message: str) -> None:
    before = torch.get_rng_state()
    with pytest.raises(UserError, match=message):
        check_backbone(make_config(backbone__name=name, backbone__kwargs=kwargs))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_encoder_gives_features_and_embeddings() -> None:
    sizes = {"method_kwargs__proj_hidden_dim": 6, "method_kwargs__proj_output_dim": 5}
    encoder = build_encoder(make_config(backbone__name="vit_tiny", backbone__kwargs={**TINY_VIT, "depth": 1}, **sizes))
    outputs = encoder(torch.zeros(2, 3, 32, 32))
    assert {name: tuple(value.shape) for name, value in outputs.items()} == {"feats": (2, 192), "z": (2, 5)}
    assert [layer.out_features for layer in encoder.projector if hasattr(layer, "out_features")] == [6, 6, 5]


@pytest.mark.solo
@pytest.mark.parametrize(
    ("name", "kwargs", "dataset"),
    [
        ("resnet18", {}, "cifar10"),
        ("resnet18", {"zero_init_residual": True}, "custom"),
        ("vit_tiny", TINY_VIT, "cifar10"),
    ],
)
def test_weights_equal_solo_learns_under_the_same_seed(name: str, kwargs: dict[str, Any], dataset: str) -> None:
    base = pytest.importorskip("solo.methods.base")
    config = make_config(backbone__name=name, backbone__kwargs=kwargs, data__dataset=dataset)
    torch.manual_seed(3)
    backbone, features = build_backbone(config)
    classifier = torch.nn.Linear(features, 10)

    cfg = solo_form(config)
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
