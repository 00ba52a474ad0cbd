"""TODO: secure_port."""
