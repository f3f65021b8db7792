"""Loading errors: they leave a loader's worker as one line, and distinguish exhausted resources from bad files."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from radial_vicreg.errors import RunFailed, UserError

_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
_LOST_DESCRIPTOR = "received 0 items of ancdata"  # multiprocessing's; the kernel drops a file that it cannot hand over
_SHARED_MEMORY = "/dev/shm"


class OneLineError(Exception):
    """An error whose message is one line, in a loader's worker as well.

    Args:
        message: the line, or a worker's text that ends with it: PyTorch rebuilds a worker's exception from its whole
            traceback.
    """

    def __init__(self, message: str = "") -> None:
        last = message.strip().splitlines()[-1] if message.strip() else ""
        super().__init__(last.rpartition(f"{type(self).__name__}: ")[2])


class UnequalShapesError(OneLineError, UserError):
    """The images of one batch have several shapes."""


class LoaderResourceError(OneLineError, RunFailed, OSError):
    """Files, shared memory or memory ran out while images were loaded."""


def resource_problem(error: BaseException) -> str | None:
    """Name the exhausted resource that an error reports, and the remedy.

    Args:
        error: of loading; its causes and contexts count as well.

    Returns:
        One sentence without its full stop; None for any other error.
    """
    for cause in _chain(error):
        if isinstance(cause, LoaderResourceError):
            return str(cause)
        if lacks_descriptor(cause) or _LOST_DESCRIPTOR in str(cause):
            return too_many_files()
        if isinstance(cause, MemoryError):
            return "out of memory while loading images: lower data.num_workers or optimizer.batch_size"
    return None


@contextmanager
def resources_named() -> Iterator[None]:
    """Convert errors that :func:`resource_problem` recognises to one line.

    Raises:
        LoaderResourceError: files, shared memory or memory ran out within.
    """
    try:
        yield
    except Exception as error:
        problem = resource_problem(error)
        if problem is None:
            raise
        raise LoaderResourceError(problem) from error


def lacks_descriptor(error: BaseException) -> bool:
    """Return whether a file could not be opened because too many files are open."""
    return isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR


def too_many_files() -> str:
    """Write the message that too many files are open, with the limit and the remedy."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        f"too many open files (this shell allows a process {limit:,}): raise the limit with `ulimit -n 65536`, or lower"
        " data.num_workers"
    )


def sharing_problem(shapes: Sequence[tuple[int, ...]], num_bytes: int) -> str:
    """Explain why a worker could not put a batch into shared memory, independently of the error's wording.

    Args:
        shapes: of the tensors in one sample.
        num_bytes: size of the whole batch.

    Returns:
        One sentence without its full stop.
    """
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError as error:
        if lacks_descriptor(error):
            return too_many_files()
        free = -1
    room = f"{_SHARED_MEMORY} has {free / 2**20:,.0f} MiB left" if free >= 0 else f"there is no {_SHARED_MEMORY}"
    return (
        f"a loader's worker could not put a batch of {num_bytes / 2**20:,.1f} MiB ({len(shapes)} tensors a sample) into"
        f" shared memory: {room}; enlarge it (docker run --shm-size=8g, or --ipc=host), lower data.num_workers, or use"
        " data.num_workers=0"
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
