"""TODO: fields."""
