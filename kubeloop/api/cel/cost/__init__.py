"""TODO: cost."""
