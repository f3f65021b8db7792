"""Copies of what 0.2.0 left behind, to be worked on."""

from old_releases import only, overrides, reading, release, shared_copy, small_vit  # noqa: F401
