"""TODO: faults."""
