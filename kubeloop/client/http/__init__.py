"""TODO: http."""
