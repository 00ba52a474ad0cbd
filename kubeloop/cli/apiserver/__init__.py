"""TODO: apiserver."""
