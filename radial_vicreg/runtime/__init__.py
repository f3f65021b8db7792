"""The device of a process, the other processes, and random numbers."""
