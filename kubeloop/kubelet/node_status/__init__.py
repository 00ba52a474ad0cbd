"""TODO: node_status."""
