"""TODO: events."""
