"""TODO: app."""
