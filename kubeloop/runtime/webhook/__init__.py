"""TODO: webhook."""
