"""The paper's tables and figures from ``results.json`` files."""

from radial_vicreg.report.build import build_report

__all__ = ["build_report"]
