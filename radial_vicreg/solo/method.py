"""Radial-VICReg as a method class of solo-learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import omegaconf
from lightning.pytorch.utilities import rank_zero_only
from solo.methods.base import BaseMethod
from torch import Tensor, nn

from radial_vicreg.config import MethodConfig, RunConfig
from radial_vicreg.config.lookups import check_strategy
from radial_vicreg.config.readers import refuse_unread
from radial_vicreg.config.types import plain
from radial_vicreg.data.folder import check_batch_fits
from radial_vicreg.io.notices import warn
from radial_vicreg.names.data_sets import NUM_ATTRIBUTES, facts_of
from radial_vicreg.names.probes import HOST_STEP_METRICS
from radial_vicreg.nets.models import apply_small_stem
from radial_vicreg.nets.optimizers import check_optimizer
from radial_vicreg.probes.metrics import BalancedAccuracy
from radial_vicreg.runs.checkpoints import followed
from radial_vicreg.solo.attributes import attributes_by_index, replace_targets
from radial_vicreg.solo.data import configured_rates, resolve_in_place, script_config
from radial_vicreg.solo.limits import (
    in_one_line,
    refuse_devices,
    refuse_images,
    refuse_impossible,
    refuse_links,
)
from radial_vicreg.solo.parts import check_packages, check_parts
from radial_vicreg.train.first_checks import check_loggers
from radial_vicreg.train.multi_label import attribute_scores, log_balanced_accuracy
from radial_vicreg.train.processes import check_launcher
from radial_vicreg.train.run_name import is_named, named
from radial_vicreg.train.same_run import check_auto_resumed, check_same_run
from radial_vicreg.train.step import RadialTraining
from radial_vicreg.train.trainer import trainer_settings

_STEP_METRICS = ("train_class_loss", *(f"train_{name}" for name in HOST_STEP_METRICS))

# solo-learn's constructor completes a configuration by a static method, before it builds anything.
_own_config: ContextVar[RunConfig | None] = ContextVar("own_config", default=None)
"""The configuration of ``radial-vicreg pretrain`` while it builds the method; None: solo-learn's script builds it."""


class RadialVICReg(RadialTraining, BaseMethod):
    """VICReg plus a loss that pulls the norms of the embeddings towards the Chi distribution (arXiv 2602.14272).

    Args:
        cfg: solo-learn's configuration. ``method_kwargs``: see :class:`radial_vicreg.config.MethodConfig`.
        own: the configuration of ``radial-vicreg pretrain``; None: solo-learn's script trains.

    Raises:
        UserError: see :meth:`add_and_assert_specific_cfg`, which solo-learn's constructor calls first.
    """

    host = "solo"
    # Set by solo-learn's base class.
    cfg: omegaconf.DictConfig
    backbone: nn.Module
    backbone_name: str
    backbone_args: dict[str, Any]
    base_model: Callable[..., nn.Module]
    features_dim: int

    def __init__(self, cfg: omegaconf.DictConfig, own: RunConfig | None = None) -> None:
        token = _own_config.set(own)
        try:
            super().__init__(cfg)
        finally:
            _own_config.reset(token)
        self.own_loop = own is not None
        self.config = script_config(self.cfg, _keys_of_the_host(self.cfg)) if own is None else own
        self._apply_stem()
        with in_one_line():
            self.add_radial_parts(self.features_dim)
        self._warned_about_size = False
        self._step_metrics: dict[str, Tensor] = {}
        self.multi_label = self.config.data.multi_label
        if self.multi_label:
            self.balanced_accuracy = BalancedAccuracy(int(self.cfg.data.num_classes))
        # radial-vicreg pretrain passes attributes with each image, solo-learn's script only the image's number.
        looks_up = self.multi_label and own is None
        with in_one_line():
            self._attributes = attributes_by_index(self.config) if looks_up else None

    @staticmethod
    def add_and_assert_specific_cfg(cfg: omegaconf.DictConfig) -> omegaconf.DictConfig:
        """Complete and check ``method_kwargs``, and write resolved values and the run's name back.

        solo-learn reads the same object afterwards: for auto-resume, its checkpoints, ``args.json`` and W&B. Base
        classes in forks of solo-learn keep their own settings in ``method_kwargs`` (``add_projector_classifier``, ...).
        These settings stay; every other key must be one of ours.

        Settings that the script does not support are refused here, before solo-learn builds anything.
        ``radial-vicreg pretrain`` has checked its own configuration, in which some of these settings are allowed.

        Args:
            cfg: the configuration.

        Returns:
            The same configuration, completed, without interpolations.

        Raises:
            UserError: a misspelt key or a bad value, of ``method_kwargs`` or any other setting; a setting that
                solo-learn would ignore, or with which it would fail later (:mod:`radial_vicreg.solo.limits`,
                :mod:`radial_vicreg.solo.parts`); a number of processes other than that for which solo-learn scales the
                rates; a ``resume_from_checkpoint`` of another run
                (:func:`radial_vicreg.train.same_run.check_same_run`).
        """
        with in_one_line():
            return _completed(cfg)

    @property
    def learnable_params(self) -> list[dict[str, Any]]:
        """solo-learn's parameter groups and the projector's."""
        return [*super().learnable_params, {"name": "projector", "params": self.projector.parameters()}]

    def results_config(self) -> dict[str, object]:
        """Return the configuration with the rates as written; solo-learn's ``parse_cfg`` has scaled them."""
        return self.config.plain() if self.own_loop else configured_rates(self.cfg)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of other images; solo-learn's auto-resume finds checkpoints by the run's name.

        Raises:
            UserError: see :func:`radial_vicreg.train.same_run.check_auto_resumed`.
        """
        with in_one_line():
            super().on_load_checkpoint(checkpoint)
            if not self.own_loop and self.config.resume_from_checkpoint is None and self.trainer.ckpt_path is not None:
                check_auto_resumed(Path(str(self.trainer.ckpt_path)), self.config)

    def setup(self, stage: str) -> None:
        """Refuse a number of processes other than that for which rates and identity are computed."""
        with in_one_line():
            super().setup(stage)

    def on_fit_end(self) -> None:
        """Raise an error if solo-learn's loader had no full batch, so that nothing was trained.

        Raises:
            UserError: there are fewer training images than one batch per process.
        """
        super().on_fit_end()
        if not self.own_loop and self.trainer.num_training_batches == 0 and self.trainer.limit_train_batches:
            loader: Any = self.trainer.train_dataloader
            config = self.config
            with in_one_line():
                where = f"data.train_path={config.data.train_path}"
                check_batch_fits(len(loader.dataset), config.optimizer.batch_size, config.processes, where)

    def forward(self, X: Tensor) -> dict[str, Tensor]:
        """Compute features, the probe's logits and embeddings ``z`` of a batch of images ``(N, 3, H, W)``."""
        out: dict[str, Tensor] = super().forward(X)
        out["z"] = self.projector(out["feats"])
        return out

    def multicrop_forward(self, X: Tensor) -> dict[str, Tensor]:
        """Compute features and embeddings ``z`` of small crops ``(N, 3, h, w)``: further views."""
        out: dict[str, Tensor] = super().multicrop_forward(X)
        out["z"] = self.projector(out["feats"])
        return out

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Look up the attributes of multi-label images, for which solo-learn's readers give numbers only."""
        if self._attributes is None or not self.trainer.training:
            return batch
        return replace_targets(batch, self._attributes)

    def base_training_step(self, X: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Take solo-learn's step, or the multi-label one.

        Without labels the probe's loss is 0, since a cross-entropy over no labels would be NaN.
        """
        if self.multi_label:
            return self._attribute_step(X, targets)
        out: dict[str, Tensor] = super().base_training_step(X, targets)
        if self.config.data.no_labels:
            out["loss"] = 0.0 * out["logits"].sum()  # keeps the classifier in the graph, which DDP demands
        return out

    def base_validation_step(self, X: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """Take solo-learn's step, or the multi-label one, which logs ``val_balanced_accuracy`` too."""
        out: dict[str, Tensor]
        if self.multi_label:
            out = self._attribute_step(X, targets)
            log_balanced_accuracy(self, self.balanced_accuracy, out["logits"], targets)
        else:
            out = super().base_validation_step(X, targets)
        return out

    def log_dict(self, dictionary: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Log solo-learn's metrics; for attributes, means over batches are ``*_attribute_acc``, without a top-5.

        Metrics of a training step are kept for :meth:`radial_step`, which averages them over the processes together
        with the terms of the objective.
        """
        if self.multi_label:
            kept = {name: value for name, value in dictionary.items() if not name.endswith("acc5")}
            dictionary = {name.replace("acc1", "attribute_acc"): value for name, value in kept.items()}
        others = {}
        for name, value in dictionary.items():
            if name in _STEP_METRICS:
                self._step_metrics[name.removeprefix("train_")] = value
            else:
                others[name] = value
        if others:
            super().log_dict(others, *args, **kwargs)

    def training_step(self, batch: Sequence[Any], batch_idx: int) -> Tensor:
        """Compute objective and online probe on one batch ``[indexes, [view 1, view 2, ...], targets]``."""
        self._step_metrics = {}
        out: dict[str, Any] = super().training_step(batch, batch_idx)  # type: ignore[assignment]
        return self.radial_step(out["z"], out["loss"], self._step_metrics)

    def validation_step(self, batch: list[Tensor], batch_idx: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Take solo-learn's step; warn once if the images do not have the training resolution."""
        trained, given = self.config.crop_size, batch[0].shape[-1]
        if given != trained and not self._warned_about_size:
            self._warned_about_size = True
            warn(
                f"validation images have {given} pixels but the network trains on {trained}: solo-learn validates "
                "image folders at 224 pixels, so val_acc1 is not informative. The radius monitor resizes its images; "
                "`radial-vicreg pretrain` validates at the training resolution."
            )
        metrics: dict[str, Any] = super().validation_step(batch, batch_idx, *args, **kwargs)  # type: ignore[assignment]
        return metrics

    def _attribute_step(self, X: Tensor, targets: Tensor) -> dict[str, Tensor]:
        out: dict[str, Tensor] = self(X)
        loss, accuracy = attribute_scores(out["logits"], targets)
        out.update({"loss": loss, "acc1": accuracy, "acc5": accuracy})  # the names that solo-learn averages
        return out

    def _apply_stem(self) -> None:
        wanted = self.config.has_small_stem
        by_name = facts_of(self.config.data.dataset).has_small_stem  # solo-learn's own rule
        if wanted == by_name or not self.backbone_name.startswith("resnet"):
            return
        if wanted:
            apply_small_stem(self.backbone)
        else:
            untouched = self.base_model(self.cfg.method, **self.backbone_args)
            self.backbone.conv1, self.backbone.maxpool = untouched.conv1, untouched.maxpool
        if not self.own_loop:
            rank_zero_only(warn)(
                f"main_linear.py cannot load this network, since small_image_stem={str(wanted).lower()} but it "
                "derives the stem from the data set's name: use `radial-vicreg probe` for a linear evaluation."
            )


def _completed(cfg: omegaconf.DictConfig) -> omegaconf.DictConfig:
    host_keys = _keys_of_the_host(cfg)
    cfg = BaseMethod.add_and_assert_specific_cfg(cfg)
    own = _own_config.get()
    config = script_config(cfg, host_keys) if own is None else own
    if own is None:
        _check_script(config)
    config = named(config, runs=Path(config.checkpoint.dir))
    of_the_host = {key: value for key, value in _method_kwargs(cfg).items() if key in host_keys}
    cfg.method_kwargs = {**config.method_kwargs.model_dump(), **of_the_host}
    cfg.name, cfg.data.fingerprint = config.name, config.data.fingerprint
    if config.data.fingerprints is not None:
        cfg.data.fingerprints = plain(config.data.fingerprints.model_dump())
    if config.data.multi_label and own is None:
        cfg.data.num_classes = NUM_ATTRIBUTES  # solo-learn has counted sub-folders
    if config.resume_from_checkpoint is not None:  # Lightning cannot follow a last.ckpt that is not a link
        cfg.resume_from_checkpoint = str(followed(Path(config.resume_from_checkpoint)))
    resolve_in_place(cfg)
    if own is None and (checkpoint := config.resume_from_checkpoint) is not None:
        check_same_run(Path(checkpoint), config, "resume_from_checkpoint")
    return cfg


def _check_script(config: RunConfig) -> None:
    """Refuse settings that solo-learn's script does not support, before it builds anything."""
    if not is_named(config):  # a script that reads args.json starts no training
        refuse_devices(config)
        check_launcher(config)
        check_strategy(config)
        check_loggers(config)
        refuse_images(config)
        check_packages(config)
        refuse_links(config)
    trainer_settings(config)  # refuses an argument that is unknown to identities
    refuse_unread(config, "script")
    check_optimizer(config)
    refuse_impossible(config)
    check_parts(config)


def _method_kwargs(cfg: omegaconf.DictConfig) -> dict[str, Any]:
    section = omegaconf.OmegaConf.select(cfg, "method_kwargs")
    plain: dict[str, Any] = {} if section is None else omegaconf.OmegaConf.to_container(section, resolve=True)  # type: ignore[assignment]
    return plain


def _keys_of_the_host(cfg: omegaconf.DictConfig) -> set[str]:
    """Return the keys that the base class adds to a copy with our keys alone.

    It would not add to ``cfg`` itself a key that the user, or an earlier run's configuration, has set.
    """
    bare = copy.deepcopy(cfg)
    ours = {key: value for key, value in _method_kwargs(cfg).items() if key in MethodConfig.model_fields}
    bare.method_kwargs = ours
    return set(_method_kwargs(BaseMethod.add_and_assert_specific_cfg(bare))) - set(MethodConfig.model_fields)
