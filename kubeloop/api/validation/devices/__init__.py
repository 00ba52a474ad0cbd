"""TODO: devices."""
