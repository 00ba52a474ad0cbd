"""TODO: networking."""
