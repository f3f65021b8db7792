"""Copies of what the first release left behind, to be worked on."""

from old_releases import only, overrides, release, small_vit  # noqa: F401
