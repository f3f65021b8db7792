"""``results.json``: settings, hardware and results of a run. No other module reads or writes this file."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from radial_vicreg.config import RunConfig
from radial_vicreg.config.stored import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import write_json
from radial_vicreg.io.locks import LockedError, changing
from radial_vicreg.names.probes import is_of_own_images, is_offline
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.origin import Images, images_of, is_of

SCHEMA_VERSION = 2
"""1: the configuration as adapted to a CPU; 2: the requested configuration, with the effective settings next to it."""

RESULTS = "results.json"

Status = Literal["running", "finished", "stopped", "interrupted", "failed"]
"""``running`` (also of a run that was killed), ``finished``, ``stopped`` (before ``max_epochs``), ``interrupted`` or
``failed``."""

FINISHED: Status = "finished"


class ResultsError(UserError):
    """A ``results.json`` that cannot be used.

    Attributes:
        reason: what is wrong with the file, without its path.
    """

    def __init__(self, path: str | Path, reason: str, remedy: str = "") -> None:
        super().__init__(f"{path}: {reason}{remedy}")
        self.reason = reason


class UnreadableResults(ResultsError):
    """The file cannot be read, is cut short or is not JSON."""


class UnrecognizedResults(ResultsError):
    """The file is JSON, but was not written by a run.

    Attributes:
        has_version: whether the file has a ``schema_version``, as files of this program do; otherwise it is another
            program's.
    """

    def __init__(self, path: str | Path, reason: str, has_version: bool = True) -> None:
        super().__init__(path, reason)
        self.has_version = has_version


class NewerResults(ResultsError):
    """A later version of this program has written the file."""


def _finite(value: float | None) -> float | None:
    """Replace a number that is not finite by None, as in the file."""
    return None if value is None or not abs(value) <= sys.float_info.max else value


_LARGEST = 2**63 - 1
Whole = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
"""A count or an index that every other program can represent."""

Number = Annotated[int | float | None, AfterValidator(_finite)]
"""A figure; None if there is none or if it was not finite. Integers stay integers."""


class _Part(BaseModel):
    """Known keys have their types; keys that this version does not know are kept."""

    model_config = ConfigDict(extra="allow", strict=True, validate_assignment=True)

    def plain(self) -> dict[str, Any]:
        """Return plain containers, with the keys that the file has."""
        return self.model_dump(exclude_unset=True)


class Effective(_Part):
    """Effective settings on the machine: a CPU trains in float32 and has no synchronised BatchNorm."""

    precision: str | None = None
    sync_batchnorm: bool | None = None
    device: str | None = None


class Place(_Part):
    """How far the weights were trained."""

    epoch: Whole | None = None
    step: Whole | None = None


class Origin(_Part):
    """Where a figure comes from, see :mod:`radial_vicreg.runs.origin`.

    The weights that were measured, and fingerprints of the training images (where a probe was fitted on them) and of
    the images that were measured.
    """

    checkpoint: Place | Literal["untrained"] | None = None
    train: list[str] | None = None
    val: list[str] | None = None


class ProbeFigures(_Part):
    """Figures of a probe in percent: the first two for classes, means of the others for attributes."""

    origin: Origin | None = None
    top1: Number = None
    top5: Number = None
    balanced_accuracy: Number = None
    accuracy: Number = None
    auroc: Number = None
    average_precision: Number = None


class FrozenProbe(_Part):
    """The linear probe of frozen features before and after training."""

    untrained: ProbeFigures | None = None
    trained: ProbeFigures | None = None


class Probes(_Part):
    """Probes by name: ``online_<probe>`` of the last validation, ``offline_<probe>_<features>[_untrained]``.

    ``offline_<probe>_<features>_images_<digits>[_untrained]`` is of other images than the run's.
    """

    __pydantic_extra__: dict[str, ProbeFigures | None]
    online_linear: ProbeFigures | None = None
    frozen_linear: FrozenProbe | None = None


class EpochFigures(_Part):
    """The values that an epoch has logged, by their logged names."""

    __pydantic_extra__: dict[str, Number]
    epoch: Whole

    def figure(self, name: str) -> float | None:
        """Look up the figure of this name; None if there is none."""
        return (self.__pydantic_extra__ or {}).get(name)


class RadiusStatistics(_Part):
    """Statistics of embeddings, see :func:`radial_vicreg.diagnostics.radius_statistics`.

    From ``mean_share`` on, with ``diagnostics.gaussianity`` only, those of
    :func:`radial_vicreg.diagnostics.gaussianity_statistics`.
    """

    w1_chi: Number = None
    kl: Number = None
    radius_mean: Number = None
    radius_std: Number = None
    embedding_mean_norm: Number = None
    effective_rank: Number = None
    off_diagonal_covariance: Number = None
    count: Number = None
    mean_share: Number = None
    uniformity: Number = None
    sliced_w2: Number = None
    epps_pulley: Number = None
    standardised_w1_chi: Number = None
    standardised_kl: Number = None
    standardised_sliced_w2: Number = None
    standardised_epps_pulley: Number = None
    constant_dimensions: Number = None


class Histogram(_Part):
    """Density of the radii in each bin; there is one more edge than there are bins."""

    edges: list[int | float]
    density: list[int | float]

    @model_validator(mode="after")
    def _has_bins(self) -> Histogram:
        if not self.density or len(self.edges) != len(self.density) + 1:
            raise ValueError("edges and density do not fit")
        return self


class RadiusEntry(_Part):
    """One measurement of the radii: BatchNorm in evaluation mode (``eval``) and with batch statistics (``batch``)."""

    epoch: Whole | None = None
    dim: Whole | None = None
    origin: Origin | None = None
    eval: RadiusStatistics = Field(default_factory=RadiusStatistics)
    batch: RadiusStatistics = Field(default_factory=RadiusStatistics)
    histogram: Histogram | None = None


class Radii(_Part):
    """The radii at initialisation, at the end and in between, and the images on which they were measured.

    With ``diagnostics.gaussianity``, also the statistics of as many ``normal`` samples as there are embeddings.
    """

    images: str | None = None
    normal: RadiusStatistics | None = None
    initial: RadiusEntry | None = None
    final: RadiusEntry | None = None
    history: list[RadiusEntry] = Field(default_factory=list)


class DataNotes(_Part):
    """Images and files that were not used.

    Attributes:
        skipped_images: number of images in each set that ``data.on_bad_image=skip`` has skipped.
        omitted_files: number of files in each set that have a type that is not read, by extension. Absent if there are
            none, and from files of versions up to 0.2, which did not count them.
    """

    skipped_images: dict[str, int] = Field(default_factory=dict)
    omitted_files: dict[str, dict[str, int]] = Field(default_factory=dict)


class Cost(_Part):
    """Median seconds from the end of one training step to the end of the next, and the largest memory.

    ``image_wait_share`` is the share of all steps' time that the process waited for images or worked on them itself.
    The memory is the process's largest resident memory on a CPU, and the largest that PyTorch had allocated in a step
    on a GPU. Measurements between steps (radii and frozen probe) have their own median seconds and largest GPU memory.
    """

    step_seconds: Number = None
    image_wait_share: Number = None
    peak_memory_mb: Number = None
    radii_seconds: Number = None
    radii_memory_mb: Number = None
    frozen_linear_seconds: Number = None
    frozen_linear_memory_mb: Number = None


class SavedCheckpoint(_Part):
    """A checkpoint that a run has written: name of its file, epochs and optimizer steps that its weights have seen."""

    name: str
    epoch: int = Field(ge=0)
    step: int = Field(ge=0)


class RunResults(_Part):
    """The content of a ``results.json``; keys that an earlier version did not write are None or empty.

    Attributes:
        config: the resolved configuration, see :data:`SCHEMA_VERSION`.
        started: time of the run's first start, ISO 8601.
        status: see :data:`Status`.
        seconds: time spent on training, over all starts.
        processes: number of training processes.
        loss_terms: ``train_*`` of the last epoch.
        error: why a run has failed or was interrupted.
        checkpoint: of a finished run, the checkpoint of its last epoch, written before the run was called finished;
            None if none is written (``checkpoint.enabled=false``). Absent from runs that are not finished and from
            files of versions up to 0.2.
    """

    schema_version: int = Field(ge=1)
    name: str | int | None = None
    method: str | None = None
    host: str | None = None
    seed: Whole | None = None
    config_hash: str | None = None
    experiment_hash: str | None = None
    config: dict[str, Any]
    versions: dict[str, str | None] | None = None
    git_commit: str | None = None
    started: str | None = None
    effective: Effective | None = None
    status: Status
    epochs: Whole | None = None
    max_epochs: Whole | None = None
    steps: Whole | None = None
    seconds: Number = None
    processes: int = Field(default=1, ge=1)
    probes: Probes | None = None
    loss_terms: dict[str, Number] = Field(default_factory=dict)
    history: list[EpochFigures] = Field(default_factory=list)
    error: str | None = None
    checkpoint: SavedCheckpoint | None = None
    radii: Radii = Field(default_factory=Radii)
    data: DataNotes | None = None
    cost: Cost | None = None
    # Read once. pydantic would take cached properties for keys of the file when an attribute is assigned.
    _requested: RunConfig | None = PrivateAttr(None)
    _identity: Identity | None = PrivateAttr(None)

    @classmethod
    def read(cls, path: str | Path) -> RunResults:
        """Read a file of any version so far.

        Raises:
            UnreadableResults: the file cannot be read, or is not JSON.
            UnrecognizedResults: another program has written the file.
            NewerResults: a later version of this program has written the file.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UnreadableResults(path, f"cannot be read: {error.strerror or error}") from error
        except (ValueError, RecursionError) as error:
            raise UnreadableResults(path, f"cut short or not JSON: {error}") from error
        if not isinstance(content, dict):
            raise UnrecognizedResults(path, "not a dictionary", has_version=False)
        try:
            strange = next(_strange_numbers(content, ""), None)
        except RecursionError as error:
            raise UnrecognizedResults(path, "nested too deeply, so not written by radial-vicreg") from error
        if strange is not None:
            reason = f"{strange}, so not written by radial-vicreg"
            raise UnrecognizedResults(path, reason, has_version="schema_version" in content)
        version = content.get("schema_version")
        if isinstance(version, int) and version > SCHEMA_VERSION:
            reason = f"schema_version {version} was written by a newer radial-vicreg"
            raise NewerResults(path, reason, f": update radial-vicreg, which reads up to {SCHEMA_VERSION} here")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            reason = f"{_complaint(error)}, so not written by radial-vicreg"
            raise UnrecognizedResults(path, reason, has_version=version is not None) from error

    @classmethod
    def update(
        cls, path: str | Path, change: Callable[[RunResults | None], RunResults], owner: bool = False
    ) -> RunResults:
        """Read, change and write a file while no other process does.

        Args:
            path: path of the file.
            change: maps the present content (None without a file) to the new content.
            owner: the file is of the caller's own run, which writes even when another process keeps the lock or
                the file is damaged.

        Returns:
            What was written.

        Raises:
            LockedError: another process has held the lock for a minute.
            ResultsError: the file that is there cannot be used.
            OSError: the file cannot be written.
        """
        path = Path(path)
        passed_over = (LockedError, ResultsError) if owner else ()
        stored = None
        with ExitStack() as stack:
            with suppress(*passed_over):
                stack.enter_context(changing(path))
            with suppress(*passed_over):
                stored = cls.read(path) if path.is_file() else None
            changed = change(stored)
            changed.write(path)
        return changed

    def write(self, path: str | Path) -> Path:
        """Write the file atomically. The caller ensures that no other process changes it, as :meth:`update` does."""
        return write_json(path, self.plain())

    @property
    def is_finished(self) -> bool:
        """Whether all epochs were trained and everything of the run is written."""
        return self.status == FINISHED

    @property
    def requested(self) -> RunConfig:
        """The configuration, typed; see :func:`radial_vicreg.config.stored.stored_config`, which may raise."""
        if self._requested is None:
            self._requested = stored_config(self.config)
        return self._requested

    @property
    def identity(self) -> Identity:
        """The run's identity according to the current rules; stored hashes may follow earlier rules."""
        if self._identity is None:
            self._identity = Identity.of(self.requested, self.processes)
        return self._identity

    @property
    def images(self) -> Images:
        """Fingerprints of the run's images, as far as they are known."""
        return images_of(self.requested)

    def probe(self, name: str) -> ProbeFigures:
        """Look up the figures of a probe on the run's own images; all are None if the run has no such probe."""
        found = dict(self.probes or ()).get(name)
        return found if isinstance(found, ProbeFigures) and self.owns(found) else ProbeFigures()

    def owns(self, figures: ProbeFigures | RadiusEntry) -> bool:
        """Return whether figures are of the images of this run, as far as is known."""
        origin = None if figures.origin is None else figures.origin.plain()
        return is_of(origin, self.images) or is_of(origin, self.measured_images())

    def measured_images(self) -> Images:
        """Read the images of this run; without validation images, those on which an offline probe was measured."""
        images = self.images
        if images.val != ():
            return images
        for name, figures in dict(self.probes or ()).items():
            is_own = is_offline(name) and is_of_own_images(name)
            if is_own and isinstance(figures, ProbeFigures) and figures.origin is not None and figures.origin.val:
                return images._replace(val=tuple(figures.origin.val))
        return images


def _strange_numbers(node: Any, place: str) -> Iterator[str]:
    """List the numbers that no run writes: NaN, infinities, and integers beyond the range of floats."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _strange_numbers(value, f"{place}.{key}" if place else str(key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _strange_numbers(value, f"{place}.{index}")
    elif isinstance(node, (int, float)) and not abs(node) <= sys.float_info.max:
        yield f"{place} cannot be {reprlib.repr(node)}"


def _complaint(error: ValidationError) -> str:
    """Describe the first problem: ``no status``, or ``probes.online_linear.top1 cannot be 'high'``."""
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    if place[-1] in ("int", "float", "str"):  # the type that was tried, which is not part of the key
        place.pop()
    name = ".".join(place)
    return f"no {name}" if first["type"] == "missing" else f"{name} cannot be {reprlib.repr(first['input'])}"
