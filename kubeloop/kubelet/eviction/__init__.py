"""TODO: eviction."""
