"""Compare the number of training processes that were started with the number that a configuration requests.

Number and rank are the trainer's (``trainer.world_size``). Rates, identity and loaders are computed for
``RunConfig.processes``: a run in which the numbers differ would train at a wrong rate and be recorded as another run.
"""

from __future__ import annotations

import os

import lightning.pytorch as pl
from lightning.fabric.plugins.environments import (
    ClusterEnvironment,
    LSFEnvironment,
    MPIEnvironment,
    SLURMEnvironment,
    TorchElasticEnvironment,
)
from lightning.pytorch.utilities import rank_zero_only

from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError
from radial_vicreg.names.counts import counted
from radial_vicreg.runtime.first_process import set_trainer_rank

# In Lightning's order: torchrun may itself run in a Slurm job.
_LAUNCHERS: tuple[tuple[type[ClusterEnvironment], str, str], ...] = (
    (TorchElasticEnvironment, "torchrun", "start it with torchrun --nnodes={nodes} --nproc_per_node={local}"),
    (
        SLURMEnvironment,
        "Slurm",
        "request --nodes={nodes} --ntasks-per-node={local} from Slurm and start it with srun (for a separate run "
        "in each task: unset SLURM_NTASKS)",
    ),
    (LSFEnvironment, "LSF", "start {total} with jsrun"),
    (MPIEnvironment, "MPI", "start {total} with mpirun"),
)


def adopt_rank(rank: int) -> None:
    """Set the rank of this process for this package and for Lightning's ``rank_zero_only``.

    The variables ``RANK``, ``LOCAL_RANK`` or ``SLURM_PROCID`` may belong to other programs.

    Args:
        rank: the trainer's ``global_rank``.
    """
    set_trainer_rank(rank)
    rank_zero_only.rank = rank  # type: ignore[attr-defined]


def average_logged(trainer: pl.Trainer) -> None:
    """Average the logged values over the processes, before a collective between two epochs.

    Lightning averages each value when it is first read, with a barrier. A progress bar reads values only in the first
    process, whose barrier would then meet a collective of the other processes.

    Args:
        trainer: the trainer; every process must call this function.
    """
    _ = trainer.callback_metrics


def check_launcher(config: RunConfig) -> None:
    """Compare the processes that torchrun, Slurm, LSF or MPI started with those that a configuration requests.

    Without this check, each of the started processes would train a configuration of one process in its own folder. With
    a configuration of several processes, the run would wait for missing processes or train with fewer.

    Args:
        config: configuration of the run.

    Raises:
        UserError: the numbers differ; the message says what to set and how to start the command.
    """
    for kind, name, remedy in _LAUNCHERS:
        if kind.detect():
            if (difference := _difference(config, kind)) is not None:
                numbers = {"nodes": config.nodes, "local": config.local_processes, "total": config.processes}
                remedy = remedy.format(**numbers)
                raise UserError(
                    f"{name} started {difference}, but {_requested(config)}: set devices and num_nodes to the "
                    f"started processes, or {remedy}"
                )
            return


def check_processes(config: RunConfig, trainer: pl.Trainer) -> None:
    """Compare a trainer's number of processes with the number for which a configuration is computed.

    Args:
        config: the configuration; rates, identity and loaders follow its ``processes``.
        trainer: trainer of the same configuration.

    Raises:
        UserError: the numbers differ, or every process would train on all images.
    """
    started = trainer.world_size
    if started != config.processes:
        raise UserError(
            f"strategy={config.strategy} trains with {counted(started, 'process', 'processes')}, but "
            f"{_requested(config)}: use strategy=auto or ddp, or request {started}"
        )
    if config.processes > 1 and not (config.model_extra or {}).get("use_distributed_sampler", True):
        raise UserError(
            f"use_distributed_sampler must not be false with {config.processes} processes: each would train on "
            "all images, in its own order; omit it"
        )


def _difference(config: RunConfig, kind: type[ClusterEnvironment]) -> str | None:
    """Describe the processes that a launcher started, if they are not those that a configuration requests."""
    try:
        environment = kind()
        started = environment.world_size()
        if started != config.processes:
            return counted(started, "process", "processes")
        # Lightning knows what torchrun started on all machines, not what it started on this one.
        here = os.environ.get("LOCAL_WORLD_SIZE") if kind is TorchElasticEnvironment else None
        if here is not None and int(here) != config.local_processes:
            return f"{counted(int(here), 'process', 'processes')} on this machine"
        environment.validate_settings(num_devices=config.local_processes, num_nodes=config.nodes)
    except (RuntimeError, ValueError) as error:
        return f"processes in a way that Lightning does not support ({error})"
    return None


def _requested(config: RunConfig) -> str:
    devices = list(config.devices) if isinstance(config.devices, tuple) else config.devices
    share = "" if config.nodes == 1 else f", {config.local_processes} on each machine"
    return f"devices={devices} and num_nodes={config.nodes} request {config.processes}{share}"
