"""TODO: extensions."""
