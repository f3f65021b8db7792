"""What a run was, in the paper's terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from radial_vicreg.hosts.standalone.optim import DEFAULT_KWARGS
from radial_vicreg.results import config_hash

_LABELS = {
    "none": "VICReg",
    "kl": "Radial-VICReg",
    "wasserstein": "Radial-VICReg W1",
    "reverse_kl": "Radial-VICReg rKL",
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
        images: the data set and, for a folder, the last two parts of its path: two folders are two data sets.
        backbone: ``backbone.name``.
        dim: d of the projector's output.
        objective: radial objective; ``"none"`` also when all its weights are 0.
        beta1: weight of the cross-entropy; 0 without the KL objective.
        beta2: weight of the entropy; 0 without the KL objective.
        gamma: weight of the Wasserstein or reverse-KL objective, else 0.
        center: ``radial_center``, False without a radial objective.
        e2mc: weight of E2MC.
        weights: lambda 1 to 3.
        details: the rest that the paper states, by the names of ``paper.json``; ``devices``, the number of processes;
            ``ce_normalize`` and ``spacing`` (m) where the objective reads them. What a configuration leaves open is
            left out.
        family: hash of everything but method, loss weights, rates, batch size and seed: what may be compared.
        grid: hash of everything but beta1, beta2 and the seed.
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
    weights: tuple[float, float, float]
    details: dict[str, Any]
    family: str
    grid: str

    @classmethod
    def from_config(cls, config: dict[str, Any], processes: int = 1) -> Setting:
        """Reads a resolved configuration.

        Args:
            config: as ``results.json`` has it.
            processes: number of training processes.

        Returns:
            The setting.

        Raises:
            KeyError: the configuration lacks a part.
        """
        kwargs, data = config["method_kwargs"], config["data"]
        objective, beta1, beta2, gamma = _radial(str(config["method"]), kwargs)
        folder = "/".join(PurePath(str(data.get("train_path"))).parts[-2:])
        dataset = str(data.get("name") or data["dataset"])
        return cls(
            dataset=dataset,
            images=f"{dataset} {folder}" if data["dataset"] == "custom" else dataset,
            backbone=str(config["backbone"]["name"]),
            dim=int(kwargs["proj_output_dim"]),
            objective=objective,
            beta1=beta1,
            beta2=beta2,
            gamma=gamma,
            center=bool(kwargs.get("radial_center")) and objective != "none",
            e2mc=float(kwargs.get("e2mc_loss_weight") or 0),
            weights=tuple(float(kwargs.get(f"{name}_loss_weight", 0)) for name in ("sim", "var", "cov")),  # type: ignore
            details=_details(config, processes, beta1, beta2),
            family=_stripped_hash(config, processes, ("radial", "e2mc", "sim", "var", "cov"), rates=True),
            grid=_stripped_hash(config, processes, ("radial_ce_loss", "radial_ent_loss"), rates=False),
        )

    @property
    def method(self) -> str:
        """The method in words."""
        return _LABELS.get(self.objective, self.objective)

    @property
    def label(self) -> str:
        """The method with its weights, in words."""
        text = self.method
        if self.objective == "kl":
            text += f" (β1 {self.beta1:g}, β2 {self.beta2:g})"
        elif self.objective != "none":
            text += f" (γ {self.gamma:g})"
        extras = [" centred"] * self.center + [f" + E2MC {self.e2mc:g}"] * bool(self.e2mc)
        return text + "".join(extras)

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: data set, backbone, d, then VICReg before the others."""
        rank = list(_LABELS).index(self.objective) if self.objective in _LABELS else len(_LABELS)
        place = (self.images, self.backbone, self.dim, self.family)
        return (*place, rank, self.center, self.beta1, self.beta2, self.gamma, self.e2mc)


def _radial(method: str, kwargs: dict[str, Any]) -> tuple[str, float, float, float]:
    objective = "none" if method == "vicreg" else str(kwargs.get("radial_objective", "kl"))
    if objective == "kl":
        beta1, beta2 = (float(kwargs.get(f"radial_{name}_loss_weight", 0)) for name in ("ce", "ent"))
        return ("kl", beta1, beta2, 0.0) if beta1 or beta2 else ("none", 0.0, 0.0, 0.0)
    if objective in ("wasserstein", "reverse_kl"):
        name = "w1" if objective == "wasserstein" else "reverse_kl"
        gamma = float(kwargs.get(f"radial_{name}_loss_weight", 1.0))
        return (objective, 0.0, 0.0, gamma) if gamma else ("none", 0.0, 0.0, 0.0)
    return "none", 0.0, 0.0, 0.0


def _details(config: dict[str, Any], processes: int, beta1: float, beta2: float) -> dict[str, Any]:
    found = {key: _at(config, path) for key, path in _DETAILS.items()}
    for key in _NEEDED:
        if found[key] is None:
            raise KeyError(_DETAILS[key])
    for key, value in DEFAULT_KWARGS.get(str(found["optimizer"]), {}).items():
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


def _stripped_hash(config: dict[str, Any], processes: int, dropped: tuple[str, ...], rates: bool) -> str:
    kept = {key: value for key, value in config["method_kwargs"].items() if not key.startswith(dropped)}
    kept.setdefault("small_image_stem", "auto")  # VICReg's configuration as written has no such key
    changed = {**config, "method_kwargs": kept}
    if processes == 1:
        changed["sync_batchnorm"] = None  # one process has nothing to synchronise
    if rates:  # every method is compared at its own best rate; figure 4 has a batch of 512 beside 256
        changed["method"] = None
        changed["optimizer"] = {**config["optimizer"], "lr": None, "classifier_lr": None, "batch_size": None}
    return config_hash(changed, processes, with_seed=False)
