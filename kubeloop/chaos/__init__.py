"""Faults on purpose: what goes wrong and when, who suffers it, and whether all promises were kept."""
