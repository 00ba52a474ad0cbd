"""TODO: flags."""
