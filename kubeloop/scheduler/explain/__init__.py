"""TODO: explain."""
