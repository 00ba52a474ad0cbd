"""TODO: check."""
