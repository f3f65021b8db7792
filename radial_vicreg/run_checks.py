"""Stored runs that are not what their results say, as far as files can show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from radial_vicreg.checkpoints import find_checkpoint, read_checkpoint
from radial_vicreg.compose import stored_config
from radial_vicreg.errors import UserError
from radial_vicreg.identity import differing_keys, digest, parts_of_release_0_2
from radial_vicreg.stored_runs import STRANGE, StoredRun

_TOLERANCE = 1e-6  # relative; rates are stored after a multiplication
_SEEDS_WORKERS = Version("2.6.1")  # Lightning's; before, the 32 bits of a seed that PyTorch reads were always the same
_SHOWN = 3  # keys or runs in a reason


class Doubt(NamedTuple):
    """A run that needs a look.

    Attributes:
        run: its folder.
        reason: one sentence.
    """

    run: str
    reason: str


def check_runs(runs: Sequence[StoredRun]) -> list[Doubt]:
    """Find runs that release 0.2 took for others, or that were trained with other settings than their results say.

    Release 0.2 did not count some settings as part of a run's identity, ``gradient_clip_val`` for example. Its report
    dropped one of two such runs as repeated, and ``ckpt=auto`` and sweeps handed one out for the other. It also kept
    the learning rates of a checkpoint that ``ckpt=PATH`` named and recorded those of the command line. With Lightning
    2.6.0 and older, the data-loading processes of ``radial-vicreg pretrain`` drew the same crops in every epoch.

    Args:
        runs: stored ones.

    Returns:
        The doubts, by run.
    """
    found = [*_merged(runs), *_other_weights(runs), *_same_crops(runs)]
    return sorted(found)


def _same_crops(runs: Iterable[StoredRun]) -> Iterator[Doubt]:
    for run in runs:
        data, lightning = run.results.config.get("data"), (run.results.versions or {}).get("lightning")
        # solo-learn's script, which leaves args.json, does not let Lightning seed the processes.
        if not isinstance(data, Mapping) or not _is_before(lightning, _SEEDS_WORKERS) or _has_arguments(run):
            continue
        workers = data.get("num_workers")
        if isinstance(workers, int) and workers > 0 and data.get("format") != "device":
            yield Doubt(
                str(run.folder),
                f"Lightning {lightning} gave its data.num_workers={workers} the same random crops in every epoch",
            )


def _has_arguments(run: StoredRun) -> bool:
    return run.path.with_name("args.json").is_file()


def _is_before(found: str | None, wanted: Version) -> bool:
    """Tell whether a version that a file names is an older one; False where it names none, or no version."""
    try:
        return found is not None and Version(found) < wanted
    except (InvalidVersion, TypeError):
        return False


def _merged(runs: Iterable[StoredRun]) -> Iterator[Doubt]:
    groups: dict[tuple[str, str], list[StoredRun]] = defaultdict(list)
    for run in filter(_is_of_0_2, runs):
        parts = parts_of_release_0_2(run.results.config, run.results.processes)
        groups[digest(_without_seed(parts)), _images(run)].append(run)
    for members in groups.values():
        for run in members:
            others = [other for other in members if _without_seed(other.parts) != _without_seed(run.parts)]
            before = parts_of_release_0_2(run.results.config, run.results.processes)
            added = [f"{key}={value}" for key, value, _ in differing_keys(run.parts, before)]
            mine = ", ".join(added) or "without such settings"
            if others:
                names = ", ".join(str(other.folder) for other in others[:_SHOWN])
                more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
                yield Doubt(str(run.folder), f"release 0.2 took it ({mine}) for one experiment with {names}{more}")
            elif added:
                yield Doubt(
                    str(run.folder), f"release 0.2 may have handed it out for a run that differs in {mine} alone"
                )


def _other_weights(runs: Iterable[StoredRun]) -> Iterator[Doubt]:
    """Compare results with the newest checkpoint: its rate, and whether all its epochs had as many batches."""
    for run in runs:
        try:
            content = read_checkpoint(find_checkpoint(run.folder))
        except UserError:
            continue  # without weights there is nothing to compare
        for reason in (_other_rate(run, content), _cut_epochs(run, content)):
            if reason is not None:
                yield Doubt(str(run.folder), reason)


def _other_rate(run: StoredRun, checkpoint: Mapping[str, Any]) -> str | None:
    try:
        # As many processes as there were: `devices=auto` counts those of this machine.
        there = {"devices": run.results.processes, "num_nodes": 1}
        wanted = stored_config(run.results.config).model_copy(update=there).rates.lr
        trained = float(checkpoint["optimizer_states"][0]["param_groups"][0]["initial_lr"])
    except STRANGE:
        return None  # without a schedule it is not known
    if abs(trained - wanted) <= _TOLERANCE * max(abs(wanted), abs(trained)):
        return None
    return (
        f"its results say optimizer.lr={run.results.config['optimizer']['lr']:g}, a peak rate of {wanted:g}, and its "
        f"checkpoint was trained with {trained:g}: ckpt=PATH had named a checkpoint of another run, or "
        "the processes were miscounted"
    )


def _cut_epochs(run: StoredRun, checkpoint: Mapping[str, Any]) -> str | None:
    try:
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        last, total = (int(progress[which]["completed"]) for which in ("current", "total"))
        epochs, whole = int(checkpoint["epoch"]) + 1, progress.get("is_last_batch")
    except STRANGE:
        return None
    if not whole or total == last * epochs:
        return None
    return (
        f"its {epochs} epochs had {total:,} batches, and the last one alone {last:,}: it was resumed from a run that a "
        "setting such as limit_train_batches had cut short"
    )


def _is_of_0_2(run: StoredRun) -> bool:
    """Tell whether release 0.2 or an earlier one has written the results; later ones do not take runs for others."""
    written_by = (run.results.versions or {}).get("radial-vicreg")
    return written_by is None or _is_before(written_by, Version("0.3.dev0"))


def _images(run: StoredRun) -> str:
    return str((run.results.config.get("data") or {}).get("fingerprint"))


def _without_seed(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if name != "seed"}
