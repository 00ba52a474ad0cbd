"""TODO: sync."""
