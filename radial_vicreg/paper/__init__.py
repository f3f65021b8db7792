"""Reproduction of the paper: its values, tables and figures, and its synthetic experiments."""
