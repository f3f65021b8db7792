"""Preparation of data sets, and image folders with checks."""
