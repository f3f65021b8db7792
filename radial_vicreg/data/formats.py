"""What ``data.format`` and ``data.cache`` ask of ``radial-vicreg pretrain``. Without PyTorch."""

from __future__ import annotations

from radial_vicreg.config import RunConfig
from radial_vicreg.errors import UserError, misspelt
from radial_vicreg.names.data_sets import PRETRAIN_FORMATS, SCRIPT_FORMATS


def memory_option(config: RunConfig) -> str | None:
    """Name the setting that keeps images in memory.

    Args:
        config: of ``radial-vicreg pretrain``.

    Returns:
        ``"data.format=device"``, ``"data.cache=ram"`` or None.

    Raises:
        UserError: an unknown format; the nearest known one is named.
    """
    layout = config.data.format
    if layout in SCRIPT_FORMATS and layout not in PRETRAIN_FORMATS:
        raise UserError(
            f"data.format={layout} is read by solo-learn's main_pretrain.py only; use "
            f"data.format={' or '.join(PRETRAIN_FORMATS)}"
        )
    if layout not in PRETRAIN_FORMATS:
        known = ", ".join(PRETRAIN_FORMATS)
        raise UserError(f"data.format must be one of {known}, got {layout!r}{misspelt(layout, PRETRAIN_FORMATS, '; ')}")
    if layout == "device":
        return "data.format=device"
    return "data.cache=ram" if config.data.cache == "ram" else None
