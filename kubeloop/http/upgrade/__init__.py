"""TODO: upgrade."""
