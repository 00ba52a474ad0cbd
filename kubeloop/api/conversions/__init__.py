"""Conversions between the versions of the kinds that are served in more than one; `api.conversion` finds them."""
