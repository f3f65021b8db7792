"""``radial-vicreg try``: train three methods briefly on the same images, and compare their embeddings and probes."""

CONFIGURATION = "quickstart"
"""Configuration of every training."""

METHODS = ("vicreg", "radialvicreg", "radialvicreg_mean")
"""The trained methods, groups of ``radialvicreg/method``: the base, a radial term, and a term for the mean with it."""
