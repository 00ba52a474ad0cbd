"""TODO: ownership."""
