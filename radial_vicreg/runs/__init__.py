"""A run as a thing: identity, state, folder, results, checkpoints, origin."""
