"""TODO: kubelet."""
