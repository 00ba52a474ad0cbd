"""TODO: quota."""
