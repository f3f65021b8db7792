"""Method and settings of a run, in the paper's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import canonical_arguments
from radial_vicreg.figures import configured_method
from radial_vicreg.names.networks import OPTIMIZER_DEFAULTS
from radial_vicreg.names.terms import (
    ADDED,
    METHOD_LABELS,
    METHODS,
    RADIAL,
    RADIAL_TERMS,
    VICREG,
    Term,
    method_in_words,
    objective_of,
    terms_of,
)
from radial_vicreg.runs.identity import Identity, canonical_precision, digest
from radial_vicreg.runs.results import RunResults

_LABELS = {
    # The order of the labels is also the sort order of experiments, so VICReg comes first.
    **{objective.name: objective.label for objective in sorted(RADIAL, key=lambda each: bool(each.terms))},
    **{method: label for method, label in METHOD_LABELS.items() if method not in METHODS},
}


@dataclass(frozen=True)
class Setting:
    """The effective method and all settings that the paper's tables distinguish.

    Attributes:
        dataset: ``data.name``, or ``data.dataset`` without one.
        images: the data set; for a folder, also the last two parts of its path, since two folders are two data sets;
            and a label of the image set if the name stands for several.
        backbone: ``backbone.name``.
        dim: d of the projector's output.
        objective: radial objective; ``"none"`` also if all its weights are 0; the method's name if its loss is custom.
        radial: weights of the objective's radial terms by their symbols (``beta1``, ``beta2`` or ``gamma``); empty
            without a radial objective.
        center: ``radial_center``, False without a radial objective.
        added: weights of the added terms that are in effect, by their symbols (``e2mc``, ``mean``).
        weights: lambda 1 to 3; empty if the method has a custom loss.
        key: the method without its weights, as used in the figures.
        details: other settings that the paper states, by their names in ``paper.json``; ``devices``, the number of
            processes; parameters of radial and added terms besides their weights, without ``radial_``
            (``ce_normalize``, ``spacing``); ``<method>.<argument>`` of a custom loss. Unset keys are omitted.
            ``trainer`` lists the arguments of Lightning's Trainer that affect results and differ from their defaults.
        family: hash of the images and of all settings except method, loss weights, rates, batch size and seed; equal
            for experiments that may be compared.
        grid: hash of all settings except beta1, beta2, the 1/d of the cross-entropy and the seed.
    """

    dataset: str
    images: str
    backbone: str
    dim: int
    objective: str
    radial: dict[str, float]
    center: bool
    added: dict[str, float]
    weights: tuple[float, ...]
    key: str
    details: dict[str, Any]
    family: str
    grid: str

    @classmethod
    def of(cls, results: RunResults) -> Setting:
        """Read the setting of a run.

        Args:
            results: results of the run. The effective ``precision`` and ``sync_batchnorm`` are used.

        Returns:
            The setting.
        """
        config, processes = _as_trained(results), results.processes
        kwargs, data = config.method_kwargs, config.data
        read = objective_of(config.plain())
        objective = str(config.method if "loss" in read else read["radial_objective"])
        radial, added = terms_of(objective), [term for term in ADDED if read.get(term.weight.name)]
        folder = "/".join(PurePath(str(data.train_path)).parts[-2:])
        dataset = data.name or data.dataset
        images = f"{dataset} {folder}" if data.dataset == "custom" else dataset
        return cls(
            dataset=dataset,
            images=images,
            backbone=config.backbone.name,
            dim=kwargs.proj_output_dim,
            objective=objective,
            radial={term.symbol: float(read.get(term.weight.name, 0)) for term in radial},
            center=bool(read.get("radial_center")),
            added={term.symbol: float(read[term.weight.name]) for term in added},
            weights=() if "loss" in read else tuple(float(read[term.weight.name]) for term in VICREG),
            key=configured_method(config.plain()),
            details=_details(config, processes, read),
            family=_family(config, processes, images),
            grid=_grid(config, processes),
        )

    def on(self, label: str) -> Setting:
        """Return the setting with a label for images whose folder has the same name as that of other images.

        Args:
            label: label of the images.
        """
        return replace(
            self,
            images=f"{self.images} ({label})",
            family=digest({"family": self.family, "images": label}),
            grid=digest({"grid": self.grid, "images": label}),
        )

    @property
    def method(self) -> str:
        """The method in words."""
        return _LABELS.get(self.objective, self.objective)

    @property
    def kind(self) -> str:
        """The method without its weights, in words."""
        return method_in_words(self.objective, self.center, self.added)

    @property
    def radial_weights(self) -> str:
        """The weights of the radial terms; empty without a radial term."""
        return ", ".join(f"{term.label} {self.radial[term.symbol]:g}" for term in terms_of(self.objective))

    @property
    def label(self) -> str:
        """The method with its weights, in words."""
        text = f"{self.method} ({self.radial_weights})" if self.radial_weights else self.method
        added = [f" + {term.label} {self.added[term.symbol]:g}" for term in self._added_terms]
        return text + " centred" * self.center + "".join(added)

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: data set, backbone, d, then VICReg before the other methods."""
        rank = list(_LABELS).index(self.objective) if self.objective in _LABELS else len(_LABELS)
        place = (self.images, self.backbone, self.dim, self.family)
        radial, added = ([self.weight(term.symbol) for term in terms] for terms in (RADIAL_TERMS, ADDED))
        return (*place, rank, self.objective, self.center, *radial, *added)

    def weight(self, symbol: str) -> float:
        """Look up the weight of a radial or an added term; 0 where the objective has no such term.

        Args:
            symbol: symbol of the term.
        """
        return self.radial.get(symbol, self.added.get(symbol, 0.0))

    @property
    def _added_terms(self) -> list[Term]:
        return [term for term in ADDED if term.symbol in self.added]


def _as_trained(results: RunResults) -> RunConfig:
    """Return the configuration with the effective precision and batch normalisation."""
    effective, requested = results.effective, results.requested
    if effective is None:
        return requested
    became = {"precision": effective.precision, "sync_batchnorm": effective.sync_batchnorm}
    return requested.model_copy(update={key: value for key, value in became.items() if value is not None})


def _family(config: RunConfig, processes: int, images: str) -> str:
    """Hash the settings that comparable runs share; rates are excluded, since each method has its own best rate."""
    parts = _comparable_parts(config, processes)
    del parts["objective"]
    rates = ("lr", "classifier_lr", "batch_size")  # figure 4 compares batches of 512 and 256
    parts["optimizer"] = {key: value for key, value in parts["optimizer"].items() if key not in rates}
    return digest({**parts, "images": images})


def _grid(config: RunConfig, processes: int) -> str:
    """Hash all settings except the two weights that figure 5 varies; VICReg is the origin of its grid."""
    parts = _comparable_parts(config, processes)
    dropped = {"radial_objective", "radial_center"}
    dropped |= {key.name for term in terms_of("kl") for key in (term.weight, *term.reads)}
    parts["objective"] = {key: value for key, value in parts["objective"].items() if key not in dropped}
    parts["radii"] = [config.method_kwargs.radial_spacing, config.method_kwargs.radial_center]
    return digest(parts)


def _details(config: RunConfig, processes: int, read: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that the paper states besides the method, by their names in ``paper.json``."""
    kwargs, optimizer, crops = config.method_kwargs, config.optimizer, config.augmentations[0]
    arguments = {**OPTIMIZER_DEFAULTS.get(optimizer.name, {}), **optimizer.arguments()}
    sizes = config.backbone.arguments()
    found: dict[str, Any] = {
        "proj_hidden_dim": kwargs.proj_hidden_dim,
        "optimizer": optimizer.name,
        "lr": optimizer.lr,
        "classifier_lr": optimizer.classifier_lr,
        "weight_decay": optimizer.weight_decay,
        **{key: arguments.get(key) for key in ("clip_lr", "eta", "exclude_bias_n_norm")},
        "batch_size": optimizer.batch_size,
        "format": config.data.format,
        "scheduler": config.scheduler.name,
        "max_epochs": config.max_epochs,
        "crop_size": crops.crop_size,
        "num_crops": crops.num_crops,
        "crop_min_scale": crops.rrc.crop_min_scale,
        "gaussian_blur": crops.gaussian_blur.prob,
        "solarization": crops.solarization.prob,
        "precision": canonical_precision(config.precision),
        "patch_size": sizes.get("patch_size"),
        "img_size": sizes.get("img_size"),
        "devices": processes,
    }
    if processes > 1:  # one process has nothing to synchronise
        found["sync_batchnorm"] = config.sync_batchnorm
    for setting in (each for term in (*RADIAL_TERMS, *ADDED) for each in term.reads if each.name in read):
        found[setting.short] = setting.unset if read[setting.name] is None else read[setting.name]
    loss = {} if config.loss is None else config.loss.given()
    found |= {f"{config.method}.{key}": value for key, value in loss.items() if key != "_target_"}
    trainer = canonical_arguments(config.plain())
    found["trainer"] = ", ".join(f"{key}={value}" for key, value in trainer.items()) or "defaults"
    return {key: value for key, value in found.items() if value is not None}


def _comparable_parts(config: RunConfig, processes: int) -> dict[str, Any]:
    parts = Identity.of(config, processes).experiment
    if processes == 1:
        parts["sync_batchnorm"] = None  # one process has nothing to synchronise
    return parts
