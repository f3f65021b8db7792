"""Every key of a run's configuration: its type, range, default and meaning, in this module and its sections."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import Field, WithJsonSchema

from radial_vicreg.config.sections import (
    AugmentationConfig,
    AutoResumeConfig,
    AutoUmapConfig,
    BackboneConfig,
    CheckpointConfig,
    DaliConfig,
    DataConfig,
    DiagnosticsConfig,
    KnnEvalConfig,
    LoggersConfig,
    LossConfig,
    MethodConfig,
    OptimizerConfig,
    PerformanceConfig,
    ProbesConfig,
    SchedulerConfig,
    WandbConfig,
)
from radial_vicreg.config.types import (
    ALL,
    LARGEST_COUNT,
    PRETRAIN,
    Choices,
    Devices,
    Expects,
    FileName,
    Items,
    Label,
    OpenSection,
    Ours,
    Outside,
    PathText,
    Stored,
    Text,
    WhoReads,
    Word,
)
from radial_vicreg.names.data_sets import facts_of
from radial_vicreg.names.networks import STRATEGIES, sees_single_images
from radial_vicreg.names.terms import LOSS_DEFAULTS, METHODS

_PLACE = Outside("location of files")
_LOGS = Outside("what is logged, displayed or kept")
_FIGURES = Outside("what is measured; it is stored with the results")
_RESUME = Outside("where a run is resumed from; the final weights are the same")
_DEVICE = Outside("type of device; the number of processes counts")
_AUTO_RESUME = WhoReads(
    "script",
    instead="ckpt=auto resumes the newest run of this configuration; without ckpt, a new run starts",
)
_CHECKPOINT = WhoReads("script", instead="use ckpt=PATH to resume from a checkpoint")
_KNN = WhoReads(
    "script", instead="use probes.encoder_knn=true for a kNN after validations, and probes.knn_neighbours for its k"
)
_UMAP = WhoReads("script", instead="use `radial-vicreg solo main_umap.py` for a plot of a finished run")
_DALI = WhoReads(
    "script", instead="data.format=dali works only with that script; use data.format=image_folder or device"
)
_CROPS_SHOWN = WhoReads("script", instead="plot some crops in a notebook instead")
_REFERENCE_BATCH = 256  # images: configured rates are for this many and grow linearly with the global batch

Precision = Literal[
    "auto",
    "32",
    "32-true",
    "64",
    "64-true",
    "16",
    "16-true",
    "16-mixed",
    "bf16",
    "bf16-true",
    "bf16-mixed",
]
_PRECISIONS = WithJsonSchema(
    {"enum": [*get_args(Precision), *(int(name) for name in get_args(Precision) if name.isdecimal())]}
)
LONG_PRECISIONS = {"16": "16-mixed", "bf16": "bf16-mixed", "32": "32-true", "64": "64-true"}
"""Lightning's short names of precisions, with their full names."""

_Stored = Literal["transformer-engine", "transformer-engine-float16"]  # accepted up to 0.2, see config.rules


class Rates(NamedTuple):
    """Peak learning rates as the optimizer uses them.

    Attributes:
        lr: rate of backbone and projector.
        classifier_lr: rate of the online linear classifier.
    """

    lr: float
    classifier_lr: float


class RunConfig(OpenSection):
    """A run: what is trained on which images, and what is measured.

    Other keys are allowed at the top: arguments of Lightning's Trainer, and values for ``${...}``.
    """

    method: Annotated[FileName, ALL, Choices(METHODS, pattern=r"^[^/\\]+$")] = Field(
        description="radialvicreg; vicreg: the same without a radial term; any other name with a custom loss"
    )
    name: Annotated[FileName, _LOGS, ALL] = Field(description="name of the run")
    seed: Annotated[int, ALL, Stored()] = Field(5, ge=0, lt=2**32, description="seed of all random numbers")
    backbone: Annotated[BackboneConfig, ALL]
    data: DataConfig
    augmentations: Annotated[tuple[AugmentationConfig, ...], Field(min_length=1), Items, ALL] = Field(
        description="pipelines of random crops, see yaml/radialvicreg/augmentation"
    )
    method_kwargs: Annotated[MethodConfig, ALL]
    loss: Annotated[
        LossConfig | None, PRETRAIN, Expects("a section with _target_, the class of the loss, and its arguments")
    ] = Field(None, description="custom loss, in Hydra's form: _target_ and arguments")
    loss_views: Annotated[Literal["pair", "all"], PRETRAIN] = Field(
        "pair", description="arguments of a custom loss: pair: two views; all: every view"
    )
    optimizer: Annotated[OptimizerConfig, ALL]
    scheduler: Annotated[SchedulerConfig, ALL] = SchedulerConfig()
    max_epochs: Annotated[int, ALL] = Field(ge=1, le=LARGEST_COUNT, description="epochs to train")
    accumulate_grad_batches: Annotated[int | None, ALL] = Field(
        1,
        ge=1,
        le=LARGEST_COUNT,
        description="batches per optimizer step, each with statistics of its own; for one large batch, set"
        " optimizer.micro_batch_size",
    )
    devices: Annotated[Devices, ALL, Stored()] = Field("1", description="GPUs, or number of processes on a CPU")
    accelerator: Annotated[Literal["auto", "cpu", "gpu", "cuda"], _DEVICE, ALL, Stored()] = Field(
        "auto", description="auto: a GPU if available"
    )
    num_nodes: Annotated[int | None, ALL] = Field(1, ge=1, le=LARGEST_COUNT, description="number of machines")
    strategy: Annotated[Text | None, Choices(STRATEGIES), _DEVICE, ALL, Stored()] = Field(
        "ddp", description="Lightning's strategy for several processes"
    )
    sync_batchnorm: Annotated[bool, ALL, Stored()] = Field(
        False, description="compute BatchNorm's statistics over all GPUs"
    )
    precision: Annotated[Precision | _Stored, Word, _PRECISIONS, ALL, Stored()] = Field(
        "16-mixed",
        description="16-mixed: float16 on a GPU, float32 on a CPU; auto: the fastest of the machine",
    )
    log_every_n_steps: Annotated[int, _LOGS, ALL] = Field(
        50, ge=0, description="steps between logged values of single steps; 0: never"
    )
    limit_val_batches: Annotated[int | float | None, _FIGURES, ALL] = Field(None, ge=0, description="0: no validation")
    dali: Annotated[DaliConfig, Outside("where images are decoded; data.format=dali itself counts"), _DALI] = (
        DaliConfig()
    )
    performance: Annotated[PerformanceConfig, Outside("memory layout"), ALL] = PerformanceConfig()
    checkpoint: Annotated[CheckpointConfig, _LOGS, ALL, Stored()] = CheckpointConfig()
    auto_resume: Annotated[AutoResumeConfig, _RESUME, _AUTO_RESUME] = AutoResumeConfig()
    resume_from_checkpoint: Annotated[PathText | None, _RESUME, _CHECKPOINT] = Field(
        None, description="path of a checkpoint, for main_pretrain.py"
    )
    wandb: Annotated[WandbConfig, _LOGS, ALL, Stored()] = WandbConfig()
    knn_eval: Annotated[KnnEvalConfig, _FIGURES, _KNN] = KnnEvalConfig()
    auto_umap: Annotated[AutoUmapConfig, _FIGURES, _UMAP] = AutoUmapConfig()
    debug_augmentations: Annotated[bool, _LOGS, _CROPS_SHOWN] = Field(False, description="option of solo-learn")
    diagnostics: Annotated[DiagnosticsConfig, _FIGURES, ALL, Ours()] = DiagnosticsConfig()
    probes: Annotated[ProbesConfig, _FIGURES, ALL, Ours()] = ProbesConfig()
    host: Annotated[
        Literal["auto", "solo", "standalone"], Outside("both hosts train the same weights"), PRETRAIN, Stored()
    ] = Field("auto", description="auto: solo-learn if installed")
    runs_dir: Annotated[PathText, _PLACE, PRETRAIN, Ours(), Stored()] = Field(
        "runs", description="folder that contains all runs"
    )
    tag: Annotated[Label | None, _LOGS, ALL] = Field(
        None, description="your own text, shown by `radial-vicreg runs` and the report"
    )
    ckpt: Annotated[PathText | None, _RESUME, PRETRAIN, Stored()] = Field(
        None, description="last, auto, or a checkpoint's path"
    )
    lock: Annotated[Literal["take"] | None, _RESUME, ALL, Stored()] = Field(
        None, description="take: resume in a folder whose lock is left over from a process that ended"
    )
    loggers: Annotated[LoggersConfig, _LOGS, PRETRAIN, Ours(), Stored()] = LoggersConfig()

    @property
    def nodes(self) -> int:
        """Number of machines."""
        return self.num_nodes or 1

    @property
    def accumulation(self) -> int:
        """Number of batches per optimizer step."""
        return self.accumulate_grad_batches or 1

    @property
    def processes(self) -> int:
        """Number of training processes: devices times nodes."""
        return self.local_processes * self.nodes

    @property
    def local_processes(self) -> int:
        """Number of training processes on this machine."""
        if isinstance(self.devices, tuple):
            return len(self.devices)
        text = str(self.devices)
        if "," in text:
            return len([index for index in text.split(",") if index.strip()])
        if text in ("auto", "-1"):
            return _gpus() if self.accelerator != "cpu" else 1
        return int(text)

    @property
    def global_batch(self) -> int:
        """Number of images per forward pass over all processes."""
        return self.optimizer.batch_size * self.processes

    @property
    def counted_micro_batch(self) -> int | None:
        """``optimizer.micro_batch_size`` where it can change the weights; None elsewhere, but for rounding."""
        size, backbone = self.optimizer.micro_batch_size, self.backbone
        if size is None or size >= self.optimizer.batch_size or sees_single_images(backbone.name, backbone.arguments()):
            return None
        return size

    @property
    def rates(self) -> Rates:
        """Rates as in solo-learn: multiplied by global batch / 256, the classifier's only with ``data.val_path``.

        Both grow with ``accumulate_grad_batches``.
        """
        scale = self.global_batch / _REFERENCE_BATCH
        classifier_scale = scale if self.data.val_path is not None else 1.0
        return Rates(
            lr=self.optimizer.lr * scale * self.accumulation,
            classifier_lr=self.optimizer.classifier_lr * classifier_scale * self.accumulation,
        )

    @property
    def radial_objective(self) -> str:
        """Effective objective for the radii; ``"none"`` for VICReg and for a custom loss."""
        return "none" if self.method == "vicreg" or self.loss is not None else self.method_kwargs.radial_objective

    @property
    def objective_settings(self) -> MethodConfig:
        """``method_kwargs`` with the effective radial objective."""
        return self.method_kwargs.model_copy(update={"radial_objective": self.radial_objective})

    @property
    def crop_size(self) -> int:
        """Training resolution in pixels."""
        return self.augmentations[0].crop_size

    @property
    def views(self) -> int:
        """Number of crops per image, of all sizes."""
        return sum(augmentation.num_crops for augmentation in self.augmentations)

    @property
    def large_views(self) -> int:
        """Number of crops per image at the training resolution; they come first."""
        return sum(given.num_crops for given in self.augmentations if given.crop_size == self.crop_size)

    @property
    def has_small_stem(self) -> bool:
        """Whether a ResNet gets the small-image stem."""
        choice = self.method_kwargs.small_image_stem
        return facts_of(self.data.dataset).has_small_stem if choice == "auto" else bool(choice)

    def plain(self) -> dict[str, Any]:
        """List every key that was given or filled in, as plain containers: for results, loggers and solo-learn."""
        unread = set() if self.loss is None else set(LOSS_DEFAULTS)
        return {**self.given(), "method_kwargs": self.method_kwargs.model_dump(exclude=unread)}


def _gpus() -> int:
    import torch

    return max(torch.cuda.device_count(), 1) if torch.cuda.is_available() else 1
