"""TODO: background."""
