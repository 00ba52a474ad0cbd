"""TODO: framework."""
