"""solo-learn as the host of ``radial-vicreg pretrain``, and the choice between the hosts."""

from __future__ import annotations

import torch

from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import RunData
from radial_vicreg.data.loader import build_train_loader
from radial_vicreg.solo import detect
from radial_vicreg.train.run import Host, Parts, build_standalone


def choose_host(config: RunConfig) -> Host:
    """Choose the host that a configuration requests.

    Args:
        config: its ``host`` is read.

    Returns:
        The host.

    Raises:
        UserError: solo-learn is requested and cannot be used.
    """
    name, reason = detect.choose_host(config.host)
    return Host(name, reason, build_solo if name == "solo" else build_standalone)


def build_solo(config: RunConfig, data: RunData) -> Parts:
    """Build solo-learn's pipelines and method; this package validates, at the training resolution."""
    from radial_vicreg.solo.data import solo_augmentations, solo_config
    from radial_vicreg.solo.method import RadialVICReg

    data.train_images  # noqa: B018  # its errors come before solo-learn's and say more
    cfg = solo_config(config, data)
    train_loader = build_train_loader(config, data.training_set(solo_augmentations(cfg)))
    model = RadialVICReg(cfg, own=config)
    if not config.performance.disable_channel_last:
        model = model.to(memory_format=torch.channels_last)
    return Parts(model, train_loader)
