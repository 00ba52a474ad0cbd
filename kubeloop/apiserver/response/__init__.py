"""TODO: response."""
