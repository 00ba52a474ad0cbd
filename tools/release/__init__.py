"""Builds distributions and checks that a release can be made."""
