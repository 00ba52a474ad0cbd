"""TODO: commands."""
