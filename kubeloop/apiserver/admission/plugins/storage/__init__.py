"""Admission plugins for claims, volumes and storage classes."""
