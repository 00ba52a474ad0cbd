"""TODO: dynamic."""
