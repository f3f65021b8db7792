"""Names and choices that configurations, commands and mathematics share; nothing here imports PyTorch."""
