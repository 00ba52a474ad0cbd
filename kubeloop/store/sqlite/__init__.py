"""TODO: sqlite."""
