"""TODO: admission."""
