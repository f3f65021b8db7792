"""Find stored runs whose results do not describe them correctly, as far as files can show it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.version import InvalidVersion, Version

from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import first_of
from radial_vicreg.runs.checkpoints import find_checkpoint, read_checkpoint
from radial_vicreg.runs.identity import Identity
from radial_vicreg.runs.stored import StoredRun

_TOLERANCE = 1e-6  # relative; rates are stored after a multiplication
_SEEDS_WORKERS = Version("2.6.1")  # Lightning's; before, the 32 bits of a seed that PyTorch reads were constant
_STRANGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)  # raised by unexpected content


class Doubt(NamedTuple):
    """A run that should be inspected.

    Attributes:
        run: folder of the run.
        reason: one sentence.
    """

    run: str
    reason: str


def check_runs(runs: Sequence[StoredRun]) -> list[Doubt]:
    """Find runs that release 0.2 confused with others, or whose results record other settings than were trained with.

    Release 0.2 did not count some settings as part of a run's identity, ``gradient_clip_val`` for example. Its report
    dropped one of two such runs as a repetition, and ``ckpt=auto`` and sweeps used one in place of the other. It also
    kept the learning rates of a checkpoint that ``ckpt=PATH`` named and recorded those of the command line. With
    Lightning 2.6.0 and older, the data-loading processes of ``radial-vicreg pretrain`` sampled the same crops in every
    epoch.

    Args:
        runs: stored runs.

    Returns:
        The doubts, sorted by run.
    """
    found = [*_merged(runs), *_other_weights(runs), *_same_crops(runs)]
    return sorted(found)


def _same_crops(runs: Iterable[StoredRun]) -> Iterator[Doubt]:
    for run in runs:
        data, lightning = run.results.requested.data, (run.results.versions or {}).get("lightning")
        # solo-learn's script does not let Lightning seed the processes.
        if not _is_before(lightning, _SEEDS_WORKERS) or run.is_of_script:
            continue
        if data.num_workers > 0 and data.format != "device":
            yield Doubt(
                str(run.folder),
                f"Lightning {lightning} gave its workers (data.num_workers={data.num_workers}) the same random "
                "crops in every epoch",
            )


def _is_before(found: str | None, wanted: Version) -> bool:
    """Return whether the version in a file is older than another; False if the file has none, or not a version."""
    try:
        return found is not None and Version(found) < wanted
    except (InvalidVersion, TypeError):
        return False


def _merged(runs: Iterable[StoredRun]) -> Iterator[Doubt]:
    groups: dict[tuple[str, str], list[StoredRun]] = defaultdict(list)
    for run in filter(_is_of_0_2, runs):
        groups[_before(run).experiment_hash, str(run.results.requested.data.fingerprint)].append(run)
    for members in groups.values():
        for run in members:
            mine = run.results.identity
            others = [other for other in members if other.results.identity.experiment_hash != mine.experiment_hash]
            added = [f"{key}={value}" for key, value, _ in mine.differences(_before(run))]
            settings = ", ".join(added) or "without such settings"
            if others:
                names = first_of([str(other.folder) for other in others])
                yield Doubt(str(run.folder), f"release 0.2 treated it ({settings}) as one experiment with {names}")
            elif added:
                yield Doubt(
                    str(run.folder), f"release 0.2 may have returned it for a run that differs only in {settings}"
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
        # The recorded number of processes: `devices=auto` would count the devices of this machine.
        there = {"devices": run.results.processes, "num_nodes": 1}
        wanted = run.results.requested.model_copy(update=there).rates.lr
        trained = float(checkpoint["optimizer_states"][0]["param_groups"][0]["initial_lr"])
    except _STRANGE:
        return None  # without a schedule the rate is not known
    if abs(trained - wanted) <= _TOLERANCE * max(abs(wanted), abs(trained)):
        return None
    return (
        f"its results have optimizer.lr={run.results.requested.optimizer.lr:g}, a peak rate of {wanted:g}, but "
        f"its checkpoint was trained with {trained:g}: ckpt=PATH named a checkpoint of another run, or the number "
        "of processes was wrong"
    )


def _cut_epochs(run: StoredRun, checkpoint: Mapping[str, Any]) -> str | None:
    try:
        progress = checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"]
        last, total = (int(progress[which]["completed"]) for which in ("current", "total"))
        epochs, whole = int(checkpoint["epoch"]) + 1, progress.get("is_last_batch")
    except _STRANGE:
        return None
    if not whole or total == last * epochs:
        return None
    return (
        f"its {epochs} epochs had {total:,} batches, but the last one had {last:,}: it was resumed from a run "
        "that a setting such as limit_train_batches had shortened"
    )


def _is_of_0_2(run: StoredRun) -> bool:
    """Return whether release 0.2 or an earlier one has written the results; later releases do not confuse runs."""
    written_by = (run.results.versions or {}).get("radial-vicreg")
    return written_by is None or _is_before(written_by, Version("0.3.dev0"))


def _before(run: StoredRun) -> Identity:
    """Return the identity according to release 0.2."""
    return Identity.of_release_0_2(run.results.requested, run.results.processes)
