"""Backbones of finished runs as plain files, verified against the checkpoint."""

from radial_vicreg.export.card import CITATION
from radial_vicreg.export.loading import CARD, FORMATS, load_exported, read_card
from radial_vicreg.export.writing import export_run

__all__ = ["CARD", "CITATION", "FORMATS", "export_run", "load_exported", "read_card"]
