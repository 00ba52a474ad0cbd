"""TODO: causes."""
