"""TODO: nodes."""
