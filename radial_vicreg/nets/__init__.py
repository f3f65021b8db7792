"""Networks, their optimizers and schedules, and predictions of both before a run."""
