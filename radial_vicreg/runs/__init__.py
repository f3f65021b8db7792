"""A run as an object: identity, state, folder, results, checkpoints, origin."""
