"""TODO: parse."""
