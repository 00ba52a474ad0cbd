"""TODO: cycle."""
