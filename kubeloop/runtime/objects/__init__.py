"""TODO: objects."""
