"""Plugins for pod groups: the minimum of a gang, placements by topology, and their scores."""
