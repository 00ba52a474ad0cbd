"""TODO: certificates."""
