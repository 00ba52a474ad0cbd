"""TODO: request."""
