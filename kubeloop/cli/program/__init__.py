"""TODO: program."""
