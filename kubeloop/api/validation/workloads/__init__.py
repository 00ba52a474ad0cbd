"""TODO: workloads."""
