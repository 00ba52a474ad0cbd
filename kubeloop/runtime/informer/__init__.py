"""TODO: informer."""
