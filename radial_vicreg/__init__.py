"""Radial-VICReg: VICReg whose embedding norms follow the Chi distribution (Kuang et al., 2025)."""

__version__ = "0.1.0"
