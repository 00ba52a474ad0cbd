"""TODO: discovery."""
