"""TODO: config."""
