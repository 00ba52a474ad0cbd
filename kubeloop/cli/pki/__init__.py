"""TODO: pki."""
