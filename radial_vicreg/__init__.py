"""Radial-VICReg: VICReg whose embedding norms follow the Chi distribution (Kuang et al., arXiv 2602.14272)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radial_vicreg.losses import RadialVICRegLoss

__all__ = ["RadialVICRegLoss", "__version__"]
__version__ = "0.3.0.dev0"


def __getattr__(name: str) -> Any:
    """Load the loss, and PyTorch with it, when somebody asks for it: a command line that prints its help needs neither.

    Raises:
        AttributeError: no such name.
    """
    if name == "RadialVICRegLoss":
        from radial_vicreg.losses import RadialVICRegLoss

        return RadialVICRegLoss
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
