"""Training: the embedded host, and what both hosts do with a batch, an epoch and a run."""
