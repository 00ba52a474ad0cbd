"""TODO: inprocess."""
