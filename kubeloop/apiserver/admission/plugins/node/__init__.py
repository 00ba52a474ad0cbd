"""TODO: node."""
