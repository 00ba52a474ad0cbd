"""TODO: watch."""
