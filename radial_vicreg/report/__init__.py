"""The paper's tables and figures from ``results.json`` files."""

from radial_vicreg.report.build import Report, build_report

__all__ = ["Report", "build_report"]
