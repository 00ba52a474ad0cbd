"""Validation of a pod's volumes: sources, projections, downward API files and mounts."""
