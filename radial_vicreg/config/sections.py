"""The sections of a configuration, in the order of ``yaml/radialvicreg/base.yaml``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model, model_validator

from radial_vicreg.config.types import (
    ALL,
    LARGEST_COUNT,
    PRETRAIN,
    Added,
    Betas,
    Choices,
    Expects,
    Items,
    OpenSection,
    Ours,
    Outside,
    PathText,
    Section,
    Stem,
    Text,
    Triple,
    WhoReads,
)
from radial_vicreg.names.choices import ON_BAD_IMAGE
from radial_vicreg.names.data_sets import DATA_SETS, FORMATS, SCRIPT_FORMATS
from radial_vicreg.names.networks import BACKBONES, OPTIMIZER_DEFAULTS, SOLO_BACKBONES
from radial_vicreg.names.terms import OBJECTIVE, Key

_LARGEST_CROP = 4096  # pixels; beyond it the first batch exceeds any memory
_WIDEST = 2**20  # of the projector's layers
_PLACE = Outside("location of files; data.fingerprint identifies the images")
_LOADING = Outside("how images are loaded; random crops follow the same distribution")
_IMAGES = Outside("which images; it is stored with the results")
_COUNTED = Outside("follows from the images or the augmentations")
_CROPS = WhoReads("script", instead="the crops are counted from augmentations (num_crops)")
_OTHER_FOLDER = WhoReads("script", instead="use runs_dir, the folder that contains all runs")
_ONE_BY_ONE = "smaller than the batch, with a backbone that has statistics of the batch or draws random numbers"
_MOST_WORKERS = 1024  # a typing error must not start a million processes


class BackboneArguments(OpenSection):
    """Arguments of the backbone's constructor: ``img_size``, ``patch_size``, ..."""


class BackboneConfig(Section):
    """The encoder."""

    name: Annotated[Text, Choices((*BACKBONES, *SOLO_BACKBONES), pattern="^timm:.")] = Field(
        description=f"{', '.join(BACKBONES)}; or timm:NAME; with host=solo also {', '.join(SOLO_BACKBONES)}"
    )
    kwargs: BackboneArguments | None = Field(
        None, description="arguments of the backbone's constructor, such as img_size"
    )

    def arguments(self) -> dict[str, Any]:
        """List the constructor's arguments."""
        return {} if self.kwargs is None else self.kwargs.given()


class FingerprintsConfig(Section):
    """Fingerprints of the images, ``VERSION:DIGITS`` each; written by the run."""

    train: Annotated[tuple[Text, ...] | None, Items] = Field(None, description="fingerprint of the training images")
    val: Annotated[tuple[Text, ...] | None, Items] = Field(None, description="fingerprint of the validation images")
    seconds: float | None = Field(None, ge=0, description="time that listing the folders took")


class DataConfig(Section):
    """Images and their loading."""

    dataset: Annotated[Text, Choices(DATA_SETS), ALL] = Field(
        description="name of the data set; custom: an image folder"
    )
    name: Annotated[Text | None, ALL] = Field(None, description="name of the data set within the run's name")
    format: Annotated[Text, Choices(FORMATS), Added("0.3"), WhoReads("pretrain", alike=SCRIPT_FORMATS)] = Field(
        "image_folder", description="device keeps the images on the GPU; dali and h5 work only with solo-learn's script"
    )
    train_path: Annotated[PathText | None, _PLACE, ALL] = Field(None, description="folder of the training images")
    val_path: Annotated[PathText | None, _PLACE, ALL] = Field(
        None, description="folder of the validation images; null: no validation"
    )
    num_workers: Annotated[int, _LOADING, ALL] = Field(
        4, ge=0, le=_MOST_WORKERS, description="processes that load images"
    )
    num_classes: Annotated[int | None, _COUNTED, ALL] = Field(
        None, ge=1, le=LARGEST_COUNT, description="number of classes; counted by the host"
    )
    no_labels: Annotated[bool, ALL] = Field(False, description="images have no classes; no probe is trained")
    fraction: Annotated[float | None, ALL] = Field(
        -1.0, ge=-1, le=1, description="share of the training images; -1: all of them"
    )
    multi_label: Annotated[bool, Added("0.3"), ALL, Ours()] = Field(
        False, description="CelebA's attributes instead of classes"
    )
    cache: Annotated[
        Literal["none", "ram"] | None,
        Outside("the images are the same, read once"),
        PRETRAIN._replace(alike=(None,)),
        Ours(),
    ] = Field("none", description="ram: decode every image once and keep it")
    on_bad_image: Annotated[Literal[ON_BAD_IMAGE], Added("0.2"), PRETRAIN, Ours()] = Field(  # type: ignore[valid-type]
        ON_BAD_IMAGE[0], description="stop at an unreadable image, or skip it"
    )
    num_large_crops: Annotated[int | None, _COUNTED, _CROPS] = Field(
        None, ge=0, description="number of large crops; counted by solo-learn"
    )
    num_small_crops: Annotated[int | None, _COUNTED, _CROPS] = Field(
        None, ge=0, description="number of small crops; counted by solo-learn"
    )
    fingerprint: Annotated[Text | None, _IMAGES, ALL] = Field(
        None, description="fingerprint of the training images, the end of the run's name; written by the run"
    )
    fingerprints: Annotated[FingerprintsConfig | None, _IMAGES, ALL, Expects("a section")] = Field(
        None, description="fingerprints of training and validation images, VERSION:DIGITS each; written by the run"
    )


class RandomResizedCrop(Section):
    """Crops of a random part of the image."""

    enabled: bool = Field(False, description="random resized crop; false: the image is only resized")
    crop_min_scale: float | None = Field(
        None, gt=0, le=1, description="smallest area of a crop, as a fraction of the image"
    )
    crop_max_scale: float | None = Field(
        None, gt=0, le=1, description="largest area of a crop, as a fraction of the image"
    )

    @property
    def scale(self) -> tuple[float, float]:
        """Smallest and largest share of the image's area."""
        return _given(self.crop_min_scale), _given(self.crop_max_scale)


class Operation(Section):
    """An operation that is applied now and then."""

    prob: float = Field(0.0, ge=0, le=1, description="how often")


class ColorJitter(Operation):
    """Random changes of the colours, each up to its strength."""

    brightness: float | None = Field(None, ge=0, description="strength")
    contrast: float | None = Field(None, ge=0, description="strength")
    saturation: float | None = Field(None, ge=0, description="strength")
    hue: float | None = Field(None, ge=0, le=0.5, description="strength")

    @property
    def strengths(self) -> tuple[float, float, float, float]:
        """Brightness, contrast, saturation and hue."""
        return _given(self.brightness), _given(self.contrast), _given(self.saturation), _given(self.hue)


class AugmentationConfig(Section):
    """A pipeline of random crops, as solo-learn has it."""

    crop_size: int = Field(ge=1, le=_LARGEST_CROP, description="pixels")
    num_crops: int = Field(ge=1, le=LARGEST_COUNT, description="number of crops per image")
    mean: Triple | None = Field(None, description="mean of the channels, for custom images; null: ImageNet's")
    std: Triple | None = Field(
        None, description="standard deviation of the channels, for custom images; null: ImageNet's"
    )
    rrc: RandomResizedCrop = RandomResizedCrop()
    color_jitter: ColorJitter = ColorJitter()
    grayscale: Operation = Operation()
    gaussian_blur: Operation = Operation()
    solarization: Operation = Operation()
    equalization: Operation = Operation()
    horizontal_flip: Operation = Operation()


class _ProjectorConfig(Section):
    proj_hidden_dim: int = Field(ge=1, le=_WIDEST, description="width of the two hidden layers of the projector")
    proj_output_dim: int = Field(ge=1, le=_WIDEST, description="d, dimension of the embeddings")


def _type(key: Key) -> Any:
    if key.choices:
        return Literal[key.choices]
    return int | None if key.default is None else type(key.default)


if TYPE_CHECKING:

    class _ObjectiveConfig(_ProjectorConfig):
        """Keys that code other than the loss reads; :data:`radial_vicreg.names.terms.OBJECTIVE` has all of them."""

        radial_objective: str
        radial_ce_loss_weight: float
        radial_ent_loss_weight: float
        radial_ce_normalize: bool
        radial_spacing: int | None
        radial_center: bool
        mean_loss_weight: float

else:
    _ObjectiveConfig = create_model(
        "_ObjectiveConfig",
        __base__=_ProjectorConfig,
        __module__=__name__,
        **{
            name: (_type(key), Field(key.default, ge=key.low, description=key.meaning))
            for name, key in OBJECTIVE.items()
        },
    )


class MethodConfig(_ObjectiveConfig):
    """``method_kwargs``: projector and objective."""

    small_image_stem: Annotated[Literal["auto"] | bool, Stem, Expects("auto, true or false")] = Field(
        "auto", description="small stem of a ResNet; auto: depends on the data set's name, as in solo-learn"
    )


class LossConfig(OpenSection):
    """A loss in Hydra's form: ``_target_``, the class, and its arguments."""

    @model_validator(mode="after")
    def _has_target(self) -> LossConfig:
        if not isinstance(self.target, str) or not self.target.strip():
            raise ValueError("no target")
        return self

    @property
    def target(self) -> Any:
        """Dotted name of the class, or of a function that returns the loss."""
        return (self.model_extra or {}).get("_target_")


class OptimizerArguments(OpenSection):
    """Arguments of the optimizer; which of them it takes depends on its name."""

    momentum: float | None = Field(None, ge=0, description="sgd, lars")
    dampening: float | None = Field(None, ge=0, description="sgd, lars")
    eta: float | None = Field(None, ge=0, description="lars: trust coefficient")
    eps: float | None = Field(None, ge=0, description="lars, adam, adamw")
    clip_lr: bool | None = Field(None, description="lars: limit the adapted rate to the learning rate")
    exclude_bias_n_norm: bool | None = Field(None, description="lars: do not adapt the rates of biases and norms")
    nesterov: bool | None = Field(None, description="sgd, lars")
    amsgrad: bool | None = Field(None, description="adam, adamw")
    maximize: bool | None = Field(None, description="sgd, adam, adamw: maximize the loss instead of minimizing it")
    betas: Betas | None = Field(None, description="adam, adamw")


class OptimizerConfig(Section):
    """Optimizer and rates; rates are as written, for 256 images."""

    name: Annotated[Text, Choices(tuple(OPTIMIZER_DEFAULTS))] = Field(
        description="radialvicreg/optimizer=NAME also sets its arguments"
    )
    batch_size: int = Field(ge=2, le=LARGEST_COUNT, description="batch size per process; BatchNorm needs 2")
    micro_batch_size: Annotated[int | None, Added("0.3", where=_ONE_BY_ONE), ALL] = Field(
        None,
        ge=1,
        le=LARGEST_COUNT,
        description="images that the backbone sees at a time, computed once more in the backward pass: less memory for"
        " the same batch; null: all",
    )
    lr: float = Field(ge=0, description="peak learning rate of backbone and projector, for 256 images")
    classifier_lr: float = Field(ge=0, description="peak learning rate of the online linear probe, for 256 images")
    weight_decay: float = Field(ge=0, description="weight decay of backbone and projector")
    exclude_bias_n_norm_wd: bool = Field(False, description="do not apply weight decay to biases and norms")
    kwargs: OptimizerArguments | None = Field(None, description="arguments of the optimizer")

    def arguments(self) -> dict[str, Any]:
        """List the optimizer's arguments."""
        return {} if self.kwargs is None else self.kwargs.given()


class SchedulerConfig(Section):
    """Learning-rate schedule."""

    name: Annotated[Text | None, Choices(("warmup_cosine", "step", "none"))] = Field(
        None, description="schedule of the learning rate; null or none: constant"
    )
    warmup_epochs: float = Field(10.0, ge=0, description="epochs of the linear warm-up")
    warmup_start_lr: float = Field(3e-5, ge=0, description="learning rate at the first step")
    min_lr: float = Field(0.0, ge=0, description="learning rate at the end")
    interval: Annotated[Text, Choices(("step", "epoch"))] = Field(
        "step", description="how often warmup_cosine changes the learning rate"
    )
    lr_decay_steps: Annotated[tuple[Annotated[int, Field(ge=0)], ...] | None, Items] = Field(
        None, description="epochs after which the learning rate is divided by 10, for scheduler.name=step"
    )


class DaliConfig(Section):
    """solo-learn's DALI pipelines."""

    device: Annotated[Text, Choices(("gpu", "cpu"))] = Field("gpu", description="where images are decoded")
    encode_indexes_into_labels: bool = Field(False, description="required for CelebA's attributes")


class PerformanceConfig(Section):
    """Memory layout."""

    disable_channel_last: bool = Field(False, description="channels-first memory format, which is slower")


class CheckpointConfig(Section):
    """Checkpoints."""

    enabled: bool = Field(True, description="write checkpoints")
    dir: Annotated[Text, _OTHER_FOLDER] = Field("trained_models", description="folder under main_pretrain.py")
    frequency: int = Field(1, ge=1, le=LARGEST_COUNT, description="epochs between checkpoints")
    keep_prev: bool = Field(False, description="keep the checkpoint of every epoch")


class AutoResumeConfig(Section):
    """solo-learn's auto-resume, under main_pretrain.py."""

    enabled: bool = Field(True, description="resume from the newest checkpoint of the same name")
    max_hours: float = Field(36, ge=0, description="maximum age in hours of the checkpoint")


class WandbConfig(Section):
    """Weights & Biases."""

    enabled: bool = Field(False, description="log to W&B")
    entity: Text | None = Field(None, description="user or team")
    project: Text | None = Field("radial-vicreg", description="project")
    offline: bool = Field(False, description="log to local files only")


class KnnEvalConfig(Section):
    """solo-learn's own kNN, under main_pretrain.py."""

    enabled: bool = Field(False, description="requires torchmetrics below 1.0")
    k: int = Field(20, ge=1, description="neighbours")
    distance_func: Annotated[Text, Choices(("euclidean", "cosine"))] = Field(
        "euclidean", description="distance between features"
    )


class AutoUmapConfig(Section):
    """solo-learn's own UMAP figures, under main_pretrain.py."""

    enabled: bool = Field(False, description="plot a UMAP of the features")
    dir: Text = Field("auto_umap", description="folder")
    frequency: int = Field(1, ge=1, description="epochs between figures")


class DiagnosticsConfig(Section):
    """Radii of the projector's output, which are logged, plotted and stored in results.json."""

    enabled: bool = Field(True, description="measure the radii")
    every_n_epochs: int = Field(
        10, ge=0, description="epochs between measurements; 0: only at initialisation and at the end"
    )
    max_images: int = Field(10_000, ge=2, le=LARGEST_COUNT, description="number of validation images, evenly spaced")
    gaussianity: bool = Field(
        False, description="also measure spectrum, directions and slices, as `radial-vicreg diagnose` does"
    )


class ProbesConfig(Section):
    """Probes besides the host's linear probe; they send no gradients to the backbone."""

    projector_linear: bool = Field(True, description="online linear probe of the projector's output (table 4)")
    encoder_mlp: bool = Field(True, description="online probe with two layers (table 3)")
    encoder_knn: bool = Field(False, description="kNN after each validation")
    lr: float = Field(1e-3, gt=0, description="initial learning rate of the online heads; AdamW, cosine to 0")
    # Our choice: the paper gives no width for its 2-layer probe.
    mlp_hidden_dim: int = Field(512, ge=1, description="width of the MLP's hidden layer")
    knn_neighbours: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1), Items] = Field(
        (20, 200), description="values of k"
    )
    # Wu et al. (2018), Unsupervised Feature Learning via Non-Parametric Instance Discrimination
    knn_temperature: float = Field(0.07, gt=0, description="the weight of a neighbour is exp(cosine / temperature)")
    knn_bank: int = Field(50_000, ge=1, description="largest number of images in the bank of each process")
    frozen_linear: Annotated[bool, PRETRAIN] = Field(
        False, description="logistic regression on frozen features, before and after the training"
    )


class LoggersConfig(Section):
    """Loggers of ``radial-vicreg pretrain``."""

    csv: bool = Field(True, description="write epochs.csv and steps.csv into the run's folder")
    tensorboard: bool = Field(
        False, description="write TensorBoard files into the run's folder; requires the extra tensorboard"
    )


def _given(value: float | None) -> float:
    assert value is not None  # reading refuses an operation whose values are missing
    return value
