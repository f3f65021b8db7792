"""What a run was, in the paper's terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from radial_vicreg.config import RunConfig
from radial_vicreg.config.trainer_arguments import canonical_arguments
from radial_vicreg.figures import configured_method
from radial_vicreg.identity import Identity, canonical_precision, digest
from radial_vicreg.keys import OPTIMIZER_DEFAULTS, objective_of
from radial_vicreg.results import RunResults

_LABELS = {
    "none": "VICReg",
    "kl": "Radial-VICReg",
    "wasserstein": "Radial-VICReg W1",
    "reverse_kl": "Radial-VICReg rKL",
    "e2mc": "VICReg + E2MC",
    "barlow": "Barlow Twins",
    "lejepa": "LeJEPA",
    "visreg": "VISReg",
}


@dataclass(frozen=True)
class Setting:
    """The effective method and everything that the paper's tables distinguish.

    Attributes:
        dataset: ``data.name``, or ``data.dataset`` without one.
        images: the data set and, for a folder, the last two parts of its path: two folders are two data sets; and which
            images these are where the name stands for several.
        backbone: ``backbone.name``.
        dim: d of the projector's output.
        objective: radial objective; ``"none"`` also when all its weights are 0; the method's name where its loss is its
            own.
        beta1: weight of the cross-entropy; 0 without the KL objective.
        beta2: weight of the entropy; 0 without the KL objective.
        gamma: weight of the Wasserstein or reverse-KL objective, else 0.
        center: ``radial_center``, False without a radial objective.
        e2mc: weight of E2MC.
        mean: weight of the loss that holds the mean.
        weights: lambda 1 to 3; empty where the method has a loss of its own.
        key: the method without its weights, as the figures know it.
        details: the rest that the paper states, by the names of ``paper.json``; ``devices``, the number of processes;
            ``ce_normalize`` and ``spacing`` (m) where the objective reads them; ``<method>.<argument>`` of
            a loss of its own. What a configuration leaves open is
            left out. ``trainer`` lists the arguments of Lightning's Trainer that count and are not at their defaults.
        family: hash of the images and of everything but method, loss weights, rates, batch size and seed: what may be
            compared.
        grid: hash of everything but beta1, beta2, the 1/d of the cross-entropy and the seed.
    """

    dataset: str
    images: str
    backbone: str
    dim: int
    objective: str
    beta1: float
    beta2: float
    gamma: float
    center: bool
    e2mc: float
    mean: float
    weights: tuple[float, ...]
    key: str
    details: dict[str, Any]
    family: str
    grid: str

    @classmethod
    def of(cls, results: RunResults) -> Setting:
        """Read what a run was.

        Args:
            results: of the run. What the machine made of the requested ``precision`` and ``sync_batchnorm`` counts.

        Returns:
            The setting.
        """
        config, processes = _as_trained(results), results.processes
        kwargs, data = config.method_kwargs, config.data
        read = objective_of(config.plain())
        objective, beta1, beta2, gamma = _objective(config.method, read)
        lambdas = () if config.loss else (kwargs.sim_loss_weight, kwargs.var_loss_weight, kwargs.cov_loss_weight)
        folder = "/".join(PurePath(str(data.train_path)).parts[-2:])
        dataset = data.name or data.dataset
        images = f"{dataset} {folder}" if data.dataset == "custom" else dataset
        return cls(
            dataset=dataset,
            images=images,
            backbone=config.backbone.name,
            dim=kwargs.proj_output_dim,
            objective=objective,
            beta1=beta1,
            beta2=beta2,
            gamma=gamma,
            center=bool(read.get("radial_center")),
            e2mc=float(read.get("e2mc_loss_weight", 0)),
            mean=float(read.get("mean_loss_weight", 0)),
            weights=lambdas,
            key=configured_method(config.plain()),
            details=_details(config, processes, beta1, beta2),
            family=_family(config, processes, images),
            grid=_grid(config, processes),
        )

    def on(self, label: str) -> Setting:
        """Give the setting on images that the name of their folder does not tell from others.

        Args:
            label: in what they differ.
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
        return self.method + " centred" * self.center + " + E2MC" * bool(self.e2mc) + " + mean" * bool(self.mean)

    @property
    def radial_weights(self) -> str:
        """The weights of the radial terms; empty without any."""
        if self.objective == "kl":
            return f"β1 {self.beta1:g}, β2 {self.beta2:g}"
        return f"γ {self.gamma:g}" if self.gamma else ""

    @property
    def label(self) -> str:
        """The method with its weights, in words."""
        text = f"{self.method} ({self.radial_weights})" if self.radial_weights else self.method
        extras = [" centred"] * self.center
        extras += [f" + {name} {weight:g}" for name, weight in (("E2MC", self.e2mc), ("mean", self.mean)) if weight]
        return text + "".join(extras)

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: data set, backbone, d, then VICReg before the others."""
        rank = list(_LABELS).index(self.objective) if self.objective in _LABELS else len(_LABELS)
        place = (self.images, self.backbone, self.dim, self.family)
        return (*place, rank, self.objective, self.center, self.beta1, self.beta2, self.gamma, self.e2mc, self.mean)


def _objective(method: str, read: dict[str, Any]) -> tuple[str, float, float, float]:
    if "loss" in read:
        return method, 0.0, 0.0, 0.0
    weights = [float(read.get(f"radial_{name}_loss_weight", 0)) for name in ("ce", "ent", "w1", "reverse_kl")]
    return str(read["radial_objective"]), weights[0], weights[1], max(weights[2:])


def _as_trained(results: RunResults) -> RunConfig:
    """Give the configuration with what the machine made of it."""
    effective, requested = results.effective, results.requested
    if effective is None:
        return requested
    became = {"precision": effective.precision, "sync_batchnorm": effective.sync_batchnorm}
    return requested.model_copy(update={key: value for key, value in became.items() if value is not None})


def _family(config: RunConfig, processes: int, images: str) -> str:
    """Hash what runs must share to be compared, each method at its own best rate."""
    parts = _comparable_parts(config, processes)
    del parts["objective"]
    rates = ("lr", "classifier_lr", "batch_size")  # figure 4 has a batch of 512 beside 256
    parts["optimizer"] = {key: value for key, value in parts["optimizer"].items() if key not in rates}
    return digest({**parts, "images": images})


def _grid(config: RunConfig, processes: int) -> str:
    """Hash everything but the two weights that figure 5 varies, with VICReg as their origin."""
    parts = _comparable_parts(config, processes)
    dropped = ("radial_objective", "radial_ce", "radial_ent", "radial_spacing", "radial_center")
    parts["objective"] = {key: value for key, value in parts["objective"].items() if not key.startswith(dropped)}
    parts["radii"] = [config.method_kwargs.radial_spacing, config.method_kwargs.radial_center]
    return digest(parts)


def _details(config: RunConfig, processes: int, beta1: float, beta2: float) -> dict[str, Any]:
    """List what the paper states beside the method, by the names of ``paper.json``."""
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
    if beta1:
        found["ce_normalize"] = kwargs.radial_ce_normalize
    if beta2:
        found["spacing"] = kwargs.radial_spacing or "round(sqrt(N))"
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
