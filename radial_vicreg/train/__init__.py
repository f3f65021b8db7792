"""Training: the embedded host, and the steps, epochs and runs of both hosts."""
