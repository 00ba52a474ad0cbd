"""TODO: preemption."""
