"""The losses that `ddp_conformance.py` compares, of this and other packages, with the settings named in their rows."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from radial_vicreg import __version__
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.runs.provenance import git_commit

Loss = Callable[[Tensor, Tensor], Tensor]

OURS, LIGHTLY, SOLO, STABLE = "radial-vicreg", "lightly", "solo-learn", "stable-pretraining"
#: How the random numbers of several processes and of one process are matched. NONE: the loss uses none. SHARED:
#: process r seeds PyTorch with r, and the loss itself shares its random numbers. OWN: process r seeds PyTorch with r
#: and keeps its random numbers; one process averages over the same seeds in turn. ALIKE: every process seeds with 0.
NONE, SHARED, OWN, ALIKE = "-", "shared by the loss", "own", "seeded alike"
#: Import name of each package.
MODULES = {OURS: "radial_vicreg", LIGHTLY: "lightly", SOLO: "solo", STABLE: "stable_pretraining"}


@dataclass(frozen=True)
class Entry:
    """A loss with its arguments.

    Attributes:
        package: package of the loss, a key of ``MODULES``.
        loss: name of the loss in the package.
        setting: description of the arguments in the table.
        requires: module that must be importable.
        build: function that makes the loss, which is called with the two views.
        draws: ``NONE``, ``SHARED``, ``OWN`` or ``ALIKE``.
        before_group: whether the loss is made before the process group, as in a script that makes its model before it
            calls Lightning's ``fit``.
    """

    package: str
    loss: str
    setting: str
    requires: str
    build: Callable[[], Loss]
    draws: str = NONE
    before_group: bool = False


def unavailable(entry: Entry) -> str | None:
    """Return why the loss is not available; None if it is."""
    if importlib.util.find_spec(MODULES[entry.package]) is None:
        return "not installed"
    try:
        importlib.import_module(entry.requires)
    except Exception as error:  # imports of other packages may fail in any way
        return f"does not import: {one_line(error)}"
    return None


def version(package: str) -> str | None:
    """Return a package's version, or the commit of a checkout that is imported in place; None if not installed."""
    if package == OURS:
        return __version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        found = importlib.util.find_spec(MODULES[package])
    if found is None or found.origin is None:
        return None
    commit = git_commit(Path(found.origin).parent)
    return commit and f"commit {commit[:7]}"


def one_line(error: Exception) -> str:
    """Format an error for a cell of a table."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _attribute(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _ours(setting: str, draws: str = NONE, **arguments: Any) -> Entry:
    build = functools.partial(RadialVICRegLoss, **arguments)
    return Entry(OURS, "RadialVICRegLoss", setting, "radial_vicreg.losses", build, draws)


def _adapter(name: str, setting: str, draws: str = NONE, **arguments: Any) -> Entry:
    """Make the entry of a class of `radial_vicreg.lightly_losses`; some of them return terms besides the loss."""

    def build() -> Loss:
        module = _attribute("radial_vicreg.lightly_losses", name)(**arguments)

        def loss(z1: Tensor, z2: Tensor) -> Tensor:
            found = module(z1, z2)
            value: Tensor = found["loss"] if isinstance(found, dict) else found
            return value

        return loss

    return Entry(LIGHTLY, name, setting, "lightly.loss", build, draws)


def _lightly(name: str, gather: bool) -> Entry:
    def build() -> Loss:
        loss: Loss = _attribute("lightly.loss", name)(gather_distributed=gather)
        return loss

    return Entry(
        LIGHTLY, name, f"gather_distributed={gather}{'' if gather else ', its default'}", "lightly.loss", build
    )


def _lightly_lejepa() -> Loss:
    module = _attribute("lightly.loss.lejepa_loss", "LeJEPALoss")()
    # It requires at least one view of each kind, so the first is the only global view.
    return lambda z1, z2: module(global_proj=z1[None], local_proj=z2[None])


def _solo(name: str, module: str) -> Entry:
    return Entry(SOLO, name, "defaults", module, lambda: _attribute(module, name))


def _stable(name: str) -> Entry:
    module = "stable_pretraining.losses"
    return Entry(STABLE, name, "defaults", module, lambda: _attribute(module, name)())


def _stable_sigreg(setting: str, before_group: bool) -> Entry:
    module = "stable_pretraining.methods.lejepa"

    def build() -> Loss:
        statistic: nn.Module = _attribute(module, "SlicedEppsPulley")()
        return lambda z1, z2: statistic(torch.cat((z1, z2)))  # both views form one sample, as in its LeJEPA

    return Entry(STABLE, "SlicedEppsPulley (SIGReg)", setting, module, build, SHARED, before_group)


ENTRIES = [
    _ours("none (VICReg)", radial_objective="none"),
    _ours("kl, beta1 100 (defaults)"),
    _ours("kl, beta1 100, beta2 10", radial_ent_loss_weight=10.0),
    _ours("kl, beta1 100, beta2 10, radial_center", radial_ent_loss_weight=10.0, radial_center=True),
    _ours("wasserstein, samples", SHARED, radial_objective="wasserstein", radial_w1_loss_weight=100.0),
    _ours(
        "wasserstein, quantiles",
        radial_objective="wasserstein",
        radial_w1_loss_weight=100.0,
        radial_w1_target="quantiles",
    ),
    _ours("reverse_kl", SHARED, radial_objective="reverse_kl", radial_reverse_kl_loss_weight=100.0),
    _ours("none, e2mc", radial_objective="none", e2mc_loss_weight=100.0),
    _ours("kl, gather_distributed=False", gather_distributed=False),
    _adapter("LeJEPALoss", "our adapter: gather_distributed=True", SHARED),
    Entry(LIGHTLY, "LeJEPALoss", "gather_distributed=False, its default", "lightly.loss", _lightly_lejepa, ALIKE),
    _adapter("VISRegLoss", "gather_distributed=True", OWN, gather_distributed=True),
    _adapter("VISRegLoss", "gather_distributed=False, its and our default", ALIKE),
    _adapter("BarlowTwinsLoss", "our adapter: gather_distributed=True"),
    _lightly("BarlowTwinsLoss", gather=False),
    _lightly("VICRegLoss", gather=True),
    _lightly("VICRegLoss", gather=False),
    _lightly("NTXentLoss", gather=True),
    _lightly("NTXentLoss", gather=False),
    _solo("vicreg_loss_func", "solo.losses.vicreg"),
    _solo("barlow_loss_func", "solo.losses.barlow"),
    _stable("VICRegLoss"),
    _stable("NTXEntLoss"),
    _stable("BarlowTwinsLoss"),
    _stable_sigreg("made after the process group", before_group=False),
    _stable_sigreg("made before the process group", before_group=True),
]
