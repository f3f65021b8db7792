"""One module per sub-command of ``radial-vicreg``; each has ``run(arguments) -> exit status``."""
