"""TODO: pods."""
