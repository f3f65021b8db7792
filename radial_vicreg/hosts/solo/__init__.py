"""Radial-VICReg as a method of solo-learn. Importing this registers it as ``radialvicreg``."""

from radial_vicreg.solo.register import register

register()
