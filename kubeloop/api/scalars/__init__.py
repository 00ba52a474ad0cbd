"""TODO: scalars."""
