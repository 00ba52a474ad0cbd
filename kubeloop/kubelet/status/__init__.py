"""TODO: status."""
