"""TODO: plugins."""
