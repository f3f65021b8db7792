"""Data sets as folders: what ``radial-vicreg data`` makes."""
