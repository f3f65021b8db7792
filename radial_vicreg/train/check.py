"""``radial-vicreg pretrain --check``: describe a run without starting it or writing a file."""

from __future__ import annotations

from collections.abc import Callable

import lightning.pytorch as pl

from radial_vicreg.config import RunConfig
from radial_vicreg.data.folder import check_batch_fits
from radial_vicreg.data.sets import data_set
from radial_vicreg.names.counts import counted
from radial_vicreg.nets.stability import equilibrium_note, stability_warnings
from radial_vicreg.runs.checkpoints import check_resumable
from radial_vicreg.train.micro_batches import accumulation_note, micro_batch_note
from radial_vicreg.train.run import Host, embedded, prepared_trainer, set_up
from radial_vicreg.train.run_folder import claim_runs_dir, find_run_folder
from radial_vicreg.train.trainer import batches_per_epoch, steps_per_epoch


def check(config: RunConfig, choose_host: Callable[[RunConfig], Host] = embedded) -> list[str]:
    """Take all steps of a run before its first file is written.

    Images that the run would keep in memory are only listed, and images that it would download are not.

    Args:
        config: the requested configuration.
        choose_host: returns the host; default: the embedded one.

    Returns:
        Lines: run folder, images, steps, and expected problems.

    Raises:
        UserError: the run could not start.
    """
    downloaded = data_set(config.data.dataset).to_download(config.data)
    if downloaded is not None:
        images, validation_images = downloaded
        share = config.data.fraction or -1
        images = int(images * share) if 0 < share < 1 else images
        return _lines(*_without_images(config, choose_host, images), (images, validation_images))
    run = set_up(config, choose_host, keep_images=False)
    validation = run.data.validation_set()
    sizes = len(run.data.training_set()), 0 if validation is None else len(validation)
    return _lines(run.config, run.trainer, run.parts.model, sizes)


def _without_images(
    config: RunConfig, choose_host: Callable[[RunConfig], Host], images: int
) -> tuple[RunConfig, pl.Trainer, None]:
    """Check what can be checked without the images."""
    config, trainer = prepared_trainer(config)
    claim_runs_dir(config, write=False)
    host = choose_host(config)
    check_batch_fits(images, config.optimizer.batch_size, config.processes)
    print(
        f"host: {host.name} ({host.reason})\n"
        f"{config.data.dataset} is not in {config.data.train_path}: the run downloads it"
    )
    return config, trainer, None


def _lines(
    config: RunConfig, trainer: pl.Trainer, model: pl.LightningModule | None, sizes: tuple[int, int]
) -> list[str]:
    place = find_run_folder(config)
    if place.checkpoint is not None and model is not None:
        check_resumable(place.checkpoint, model)
    resumes = "" if place.checkpoint is None else f", resuming from {place.checkpoint}"
    batches = batches_per_epoch(trainer, config, sizes[0])
    notes = [equilibrium_note(config), accumulation_note(config)]
    if model is not None:
        notes.append(micro_batch_note(config, model.backbone))  # type: ignore[arg-type]
    return [
        f"run folder: {place.path or place.parent / 'TIME'}{resumes}",
        f"images: {sizes[0]:,} for training, {sizes[1]:,} for validation",
        _steps(trainer, config, batches),
        *(f"warning: {text}" for text in stability_warnings(config, steps_per_epoch(config, batches))),
        *(note for note in notes if note is not None),
        "check finished: nothing was started or written",
    ]


def _steps(trainer: pl.Trainer, config: RunConfig, batches: int) -> str:
    steps = steps_per_epoch(config, batches)
    epochs = int(trainer.max_epochs or 0)
    total = steps * epochs
    limit = ""
    if 0 < trainer.max_steps < total:
        total, limit = trainer.max_steps, ", cut by max_steps"
    length = f"{counted(epochs, 'epoch')} of {steps:,}{limit}"
    text = f"steps: {total:,} ({length}), global batch {config.global_batch:,}"
    if config.accumulation > 1:
        text += f", {config.accumulation} of them per step"
    if (size := config.optimizer.micro_batch_size) is not None:
        text += f", the backbone sees at most {size:,} at a time"
    return f"{text}, optimizer.lr {config.optimizer.lr:g} scaled to {config.rates.lr:g}"
