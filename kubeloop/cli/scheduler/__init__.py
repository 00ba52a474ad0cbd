"""TODO: scheduler."""
