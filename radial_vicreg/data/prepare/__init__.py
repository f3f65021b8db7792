"""Preparation of data sets as folders, for ``radial-vicreg data``."""
