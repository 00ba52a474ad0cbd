"""TODO: up."""
