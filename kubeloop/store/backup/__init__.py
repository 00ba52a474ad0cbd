"""TODO: backup."""
