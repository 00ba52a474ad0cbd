"""TODO: expressions."""
