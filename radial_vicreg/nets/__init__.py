"""Networks, their optimizers and schedules, and what is known of both before a run."""
