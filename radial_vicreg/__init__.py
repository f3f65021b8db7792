"""Radial-VICReg: VICReg whose embedding norms follow the Chi distribution (Kuang et al., arXiv 2602.14272)."""

__version__ = "0.1.0"
