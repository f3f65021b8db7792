"""``radial-vicreg pretrain --check``: describe a run without starting it or writing a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import lightning.pytorch as pl

from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import RunData
from radial_vicreg.data.decoded import require_one_size, require_room
from radial_vicreg.data.folder import check_batch_fits
from radial_vicreg.data.formats import memory_option
from radial_vicreg.data.sets import data_set
from radial_vicreg.data.survey import SAMPLE, Survey, survey, unequal_crops, unreadable_text
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted
from radial_vicreg.nets.stability import equilibrium_note, stability_warnings
from radial_vicreg.runs.checkpoints import check_resumable
from radial_vicreg.train.micro_batches import accumulation_note, micro_batch_note
from radial_vicreg.train.run import Host, SetUp, embedded, prepared_trainer, set_up
from radial_vicreg.train.run_folder import claim_runs_dir, find_run_folder
from radial_vicreg.train.trainer import batches_per_epoch, steps_per_epoch


def check(
    config: RunConfig, choose_host: Callable[[RunConfig], Host] = embedded, all_images: bool = False
) -> list[str]:
    """Take all steps of a run before its first file is written, and open images.

    Images that the run would keep in memory are not kept, and images that it would download are not.

    Args:
        config: the requested configuration.
        choose_host: returns the host; default: the embedded one.
        all_images: open every image, not a sample.

    Returns:
        Lines: run folder, images, steps, and expected problems.

    Raises:
        UserError: the run could not start, or would stop at an image: one that cannot be read, or of another size
            than the others where all must be of one.
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
    opened = _open_images(config, run, None if all_images else SAMPLE)
    return _lines(run.config, run.trainer, run.parts.model, sizes, opened)


def _open_images(config: RunConfig, run: SetUp, limit: int | None) -> list[str]:
    """Open images of both sets and describe them.

    Args:
        config: the requested configuration; that of ``run`` keeps no images in memory.
        run: the run.
        limit: images of each set that are opened; None for all.

    Raises:
        UserError: the training would stop at some of them; all problems are in one line.
    """
    data, problems, lines, all_opened = run.data, [], [], True
    sets = {"data.train_path": data.train_images, "data.val_path": data.val_images}
    for key, images in sets.items():
        if images is None or not (found := survey(images, limit)).opened:
            continue
        all_opened = all_opened and found.opened == len(images)
        if found.bad:
            problems.append(unreadable_text(found.bad, found.opened, key))
        if images is data.train_images and (problem := _size_problem(config, data, found)) is not None:
            problems.append(problem)
        if not found.bad:
            lines.append(f"opened {found.opened:,} of {key}: all can be read, {found.sizes_in_words()}")
    if problems:
        sample = "" if all_opened else " (--all-images opens every image)"
        raise UserError(f"the run would stop: {'; '.join(problems)}{sample}")
    return lines


def _size_problem(config: RunConfig, data: RunData, found: Survey) -> str | None:
    """Describe why a training cannot have images of the sizes that were found, or cannot keep them in memory."""
    if (option := memory_option(config)) is not None:
        same_size = option == "data.format=device"
        try:
            if same_size:
                require_one_size(found.sizes, option)
            if not found.bad:
                require_room(data.train_images, option, same_size, config.local_processes)
        except UserError as error:
            return str(error)
    if all(augmentation.rrc.enabled for augmentation in config.augmentations):
        return None
    return unequal_crops(found.sizes, data.augmentations())


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
    config: RunConfig,
    trainer: pl.Trainer,
    model: pl.LightningModule | None,
    sizes: tuple[int, int],
    opened: Sequence[str] = (),
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
        *opened,
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
