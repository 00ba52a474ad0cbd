"""TODO: registry."""
