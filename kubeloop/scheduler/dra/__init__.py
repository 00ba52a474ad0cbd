"""TODO: dra."""
