"""Radial-VICReg as a method of solo-learn, which is imported only where it is used."""
