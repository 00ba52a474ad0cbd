"""TODO: extenders."""
