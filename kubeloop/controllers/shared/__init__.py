"""TODO: shared."""
