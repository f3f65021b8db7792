"""Files, locks, output and signals of a process."""
