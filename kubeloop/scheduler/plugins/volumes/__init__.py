"""TODO: volumes."""
