"""Validation of a pod's containers: resources, environment, handlers, probes and resize."""
