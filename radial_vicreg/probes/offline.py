"""Probes of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from radial_vicreg.config import RunConfig
from radial_vicreg.data.build import open_data
from radial_vicreg.data.fingerprint import fingerprints_of
from radial_vicreg.errors import UserError
from radial_vicreg.io.files import claim_output, write_json
from radial_vicreg.io.outputs import claim_file, json_with
from radial_vicreg.names import probes as probe_names
from radial_vicreg.names.counts import counted
from radial_vicreg.names.probes import FEATURES, HOST_PROBE, METRIC_LABELS, offline_key, offline_words
from radial_vicreg.probes.features import run_features
from radial_vicreg.probes.registry import probe_class
from radial_vicreg.runs.checkpoints import file_checksum
from radial_vicreg.runs.loaded import LoadedRun, open_run
from radial_vicreg.runs.origin import Images, compare_fingerprints, digits, origin_of
from radial_vicreg.runs.results import RESULTS, Probes, RunResults
from radial_vicreg.runtime.devices import process_device


def probe_run(
    path: str | Path,
    probe: str = HOST_PROBE,
    features: str = "encoder",
    untrained: bool = False,
    train: str | Path | None = None,
    val: str | Path | None = None,
    workers: int | None = None,
    seed: int = 0,
    on_bad_image: str | None = None,
    for_results: bool = False,
) -> tuple[Path, dict[str, Any]]:
    """Probe one run and write ``<run>/probes/<probe>-<features>[-images-<digits>][-untrained].json``.

    For images other than the run's own, the name contains digits of their fingerprints.

    Args:
        path: run folder or checkpoint, see :func:`radial_vicreg.runs.loaded.open_run`.
        probe: one of :data:`radial_vicreg.names.probes.PROBES`.
        features: one of :data:`radial_vicreg.names.probes.FEATURES`.
        untrained: use random weights instead of the checkpoint's, as a baseline.
        train: training images; default: the run's own.
        val: validation images; default: the run's own.
        workers: number of data-loading processes; default: the configuration's.
        seed: seed of the held-out split and of the MLP.
        on_bad_image: ``"error"`` or ``"skip"``, as ``data.on_bad_image``; default: the configuration's.
        for_results: perform the checks of :func:`add_to_results` before the work.

    Returns:
        Path and content of the file.

    Raises:
        UserError: a name is unknown, or :func:`open_run` or the probe raises it.
    """
    if probe not in probe_names.PROBES or features not in FEATURES:
        known = ", ".join(probe_names.PROBES)
        raise UserError(f"probe must be one of {known} and features one of {', '.join(FEATURES)}")
    run = open_run(path, untrained=untrained)
    config = _with_images(run.config, train_path=train, val_path=val, on_bad_image=on_bad_image)
    images = _fingerprints(config)
    others = _others(images, _own_images(run))
    name = "-".join(offline_words(probe, features, others, untrained))
    file = claim_file(run.folder / "probes" / f"{name}.json", json_with("probe", "features", "test"), "probe")
    if for_results:
        results = claim_output(run.folder / RESULTS, "file")
        _check_same_epoch(RunResults.read(results) if results.is_file() else None, run.folder, run.epoch, untrained)
    data = open_data(config)
    found = run_features(run, data, features, untrained, workers)
    device = process_device(torch.cuda.is_available())
    (x, y), (x_val, y_val) = ((a.to(device), b.to(device)) for a, b in (found.train, found.val))
    fitted = probe_class(probe)(seed=seed).fit(x, y, bar=f"{probe} probe")
    content = {
        "probe": probe,
        "features": features,
        "untrained": untrained,
        **_identity(run, untrained),
        "origin": origin_of(images, None if untrained else run.epoch, run.step),
        "other_images": others,
        "train_path": str(data.config.data.train_path),
        "val_path": str(data.config.data.val_path),
        "train_images": len(x),
        "val_images": len(x_val),
        "feature_dim": x.shape[1],
        "seed": seed,
        "chosen": fitted.chosen_,
        "held_out": fitted.held_out_,
        "test": fitted.score(x_val, y_val),
        "features_cached": found.cached,
        "skipped_images": {split: len(files) for split, files in data.skipped.items()},
        **({"omitted_files": data.omitted} if data.omitted else {}),
    }
    return write_json(file, content), content


def add_to_results(folder: Path, content: dict[str, Any]) -> str:
    """Add the figures of a probe to ``results.json`` as ``probes.offline_<probe>_<features>[_untrained]``.

    For images other than the run's own, the key is ``probes.offline_<probe>_<features>_images_<digits>``.

    Args:
        folder: folder of the run.
        content: content returned by :func:`probe_run`.

    Returns:
        The key.

    Raises:
        UserError: there is no ``results.json``, or the checkpoint is not that of the finished run.
    """
    others = content.get("other_images") or ""
    key = offline_key(content["probe"], content["features"], others, content["untrained"])

    def with_figures(stored: RunResults | None) -> RunResults:
        results = _check_same_epoch(stored, folder, content["epoch"], content["untrained"])
        known = {} if results.probes is None else results.probes.plain()
        figures = {**content["test"], "chosen": content["chosen"], "origin": content["origin"]}
        results.probes = Probes.model_validate(known | {key: figures})
        return results

    RunResults.update(folder / RESULTS, with_figures)
    return key


def summary(content: dict[str, Any]) -> str:
    """Summarise a probe and its figures in one line."""
    test = content["test"]
    chosen = ", ".join(f"{key} {value:g}" for key, value in content["chosen"].items())
    figures = ", ".join(f"{words} {test[metric]:.2f} %" for metric, words in METRIC_LABELS.items() if metric in test)
    count = sum(content["skipped_images"].values())
    skipped = f"; {counted(count, 'unreadable image')} skipped" if count else ""
    state = "untrained" if content["untrained"] else f"epoch {content['epoch']}"
    others = ", which are not those of the run" if content["other_images"] else ""
    return (
        f"{content['probe']} probe of {content['feature_dim']} {content['features']} features ({state}): {figures} on "
        f"{counted(content['val_images'], 'image')}{others} ({chosen}, chosen on held-out training images"
        f"{skipped})"
    )


def _check_same_epoch(results: RunResults | None, folder: Path, epoch: int | None, untrained: bool) -> RunResults:
    """Return the results if a probe of this epoch may be added to them."""
    if results is None:
        raise UserError(f"{folder} has no results.json: the results cannot be added")
    if not untrained and epoch != results.epochs:
        raise UserError(
            f"the checkpoint is of epoch {epoch}, results.json is of epoch {results.epochs}: the results were not added"
        )
    return results


def _with_images(config: RunConfig, **given: str | Path | None) -> RunConfig:
    changes = {key: str(value) for key, value in given.items() if value is not None}
    return config.model_copy(update={"data": config.data.model_copy(update=changes)})


def _fingerprints(config: RunConfig) -> Images:
    found = fingerprints_of(config)
    return Images(found.train, found.val)


def _own_images(run: LoadedRun) -> Images:
    """Return the images of the run: the recorded ones, or else the current ones in the folders that it read."""
    there = _fingerprints(run.config)
    return Images(*(found if known is None else known for known, found in zip(run.images, there, strict=True)))


def _others(images: Images, own: Images) -> str:
    """Return the digits that identify images other than the run's own; empty for the run's own images.

    Images that cannot be compared with the run's count as other images, since they may differ. For a run without
    validation images, those of the first probe count as its own.
    """
    same = [known == () or compare_fingerprints(found, known).same for found, known in zip(images, own, strict=True)]
    return "" if all(same) else digits(" ".join(entry for fingerprints in images for entry in fingerprints or ()))


def _identity(run: LoadedRun, untrained: bool) -> dict[str, str | int | None]:
    return {
        "checkpoint": None if untrained else run.checkpoint.name,
        "checkpoint_sha256": None if untrained else file_checksum(run.checkpoint),
        "epoch": run.epoch,
        **run.hashes,
    }
