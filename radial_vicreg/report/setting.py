"""What a run was, in the paper's terms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from radial_vicreg.config.trainer_arguments import canonical_arguments
from radial_vicreg.figures import configured_method
from radial_vicreg.identity import HARDWARE, canonical_precision, digest, identity_parts
from radial_vicreg.keys import OPTIMIZER_DEFAULTS, objective_of
from radial_vicreg.results import Effective

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
_DETAILS = {
    "proj_hidden_dim": "method_kwargs.proj_hidden_dim",
    "optimizer": "optimizer.name",
    "lr": "optimizer.lr",
    "classifier_lr": "optimizer.classifier_lr",
    "weight_decay": "optimizer.weight_decay",
    "clip_lr": "optimizer.kwargs.clip_lr",
    "eta": "optimizer.kwargs.eta",
    "exclude_bias_n_norm": "optimizer.kwargs.exclude_bias_n_norm",
    "batch_size": "optimizer.batch_size",
    "format": "data.format",
    "scheduler": "scheduler.name",
    "max_epochs": "max_epochs",
    "crop_size": "augmentations.0.crop_size",
    "num_crops": "augmentations.0.num_crops",
    "crop_min_scale": "augmentations.0.rrc.crop_min_scale",
    "gaussian_blur": "augmentations.0.gaussian_blur.prob",
    "solarization": "augmentations.0.solarization.prob",
    "precision": "precision",
    "patch_size": "backbone.kwargs.patch_size",
    "img_size": "backbone.kwargs.img_size",
}
"""What the paper states beside the method, by the names of ``paper.json``, and where a configuration has it."""
_NEEDED = ("proj_hidden_dim", "optimizer", "lr", "batch_size", "crop_size")


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
    def from_config(cls, config: dict[str, Any], processes: int = 1, effective: Effective | None = None) -> Setting:
        """Read a resolved configuration.

        Args:
            config: as ``results.json`` has it.
            processes: number of training processes.
            effective: what the machine made of the requested ``precision`` and ``sync_batchnorm``; without it they were
                followed, or the configuration itself says what they became.

        Returns:
            The setting.

        Raises:
            KeyError: the configuration lacks a part.
        """
        kwargs, data = config["method_kwargs"], config["data"]
        became = {} if effective is None else effective.plain()
        config = {**config, **{key: became[key] for key in HARDWARE if key in became}}
        read = objective_of(config)
        objective, beta1, beta2, gamma = _objective(str(config["method"]), read)
        lambdas = () if config.get("loss") else ("sim", "var", "cov")
        folder = "/".join(PurePath(str(data.get("train_path"))).parts[-2:])
        dataset = str(data.get("name") or data["dataset"])
        images = f"{dataset} {folder}" if data["dataset"] == "custom" else dataset
        return cls(
            dataset=dataset,
            images=images,
            backbone=str(config["backbone"]["name"]),
            dim=int(kwargs["proj_output_dim"]),
            objective=objective,
            beta1=beta1,
            beta2=beta2,
            gamma=gamma,
            center=bool(read.get("radial_center")),
            e2mc=float(read.get("e2mc_loss_weight", 0)),
            mean=float(read.get("mean_loss_weight", 0)),
            weights=tuple(float(kwargs.get(f"{name}_loss_weight", 0)) for name in lambdas),
            key=configured_method(config),
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


def _family(config: dict[str, Any], processes: int, images: str) -> str:
    """Hash what runs must share to be compared, each method at its own best rate."""
    parts = _comparable_parts(config, processes)
    del parts["objective"]
    rates = ("lr", "classifier_lr", "batch_size")  # figure 4 has a batch of 512 beside 256
    parts["optimizer"] = {key: value for key, value in parts["optimizer"].items() if key not in rates}
    return digest({**parts, "images": images})


def _grid(config: dict[str, Any], processes: int) -> str:
    """Hash everything but the two weights that figure 5 varies, with VICReg as their origin."""
    parts = _comparable_parts(config, processes)
    dropped = ("radial_objective", "radial_ce", "radial_ent", "radial_spacing", "radial_center")
    parts["objective"] = {key: value for key, value in parts["objective"].items() if not key.startswith(dropped)}
    kwargs = config["method_kwargs"]
    parts["radii"] = [kwargs.get("radial_spacing"), bool(kwargs.get("radial_center"))]
    return digest(parts)


def _details(config: dict[str, Any], processes: int, beta1: float, beta2: float) -> dict[str, Any]:
    found = {key: _at(config, path) for key, path in _DETAILS.items()}
    for key in _NEEDED:
        if found[key] is None:
            raise KeyError(_DETAILS[key])
    for key, value in OPTIMIZER_DEFAULTS.get(str(found["optimizer"]), {}).items():
        if found.get(key, value) is None:
            found[key] = value
    kwargs = config["method_kwargs"]
    found["devices"] = processes
    if processes > 1:  # one process has nothing to synchronise
        found["sync_batchnorm"] = bool(config.get("sync_batchnorm"))
    if beta1:
        found["ce_normalize"] = bool(kwargs.get("radial_ce_normalize", True))
    if beta2:
        found["spacing"] = kwargs.get("radial_spacing") or "round(sqrt(N))"
    found |= {
        f"{config['method']}.{key}": value for key, value in (config.get("loss") or {}).items() if key != "_target_"
    }
    found["trainer"] = ", ".join(f"{key}={value}" for key, value in canonical_arguments(config).items()) or "defaults"
    found["precision"] = canonical_precision(found["precision"])
    return {key: value for key, value in found.items() if value is not None}


def _at(config: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(config, dict):
            config = config.get(part)
        elif isinstance(config, list) and part.isdigit() and int(part) < len(config):
            config = config[int(part)]
        else:
            return None
    return config


def _comparable_parts(config: dict[str, Any], processes: int) -> dict[str, Any]:
    parts = identity_parts(config, processes)
    del parts["seed"]
    if processes == 1:
        parts["sync_batchnorm"] = None  # one process has nothing to synchronise
    return parts
