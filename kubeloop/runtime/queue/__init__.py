"""TODO: queue."""
