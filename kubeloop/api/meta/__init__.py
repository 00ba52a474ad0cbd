"""TODO: meta."""
