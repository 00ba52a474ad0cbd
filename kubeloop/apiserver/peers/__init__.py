"""TODO: peers."""
