"""TODO: crd."""
