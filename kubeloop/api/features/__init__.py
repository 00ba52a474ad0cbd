"""TODO: features."""
