"""TODO: leaderelection."""
