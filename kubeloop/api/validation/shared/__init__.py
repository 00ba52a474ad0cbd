"""Validation rules shared by many kinds: metadata, conditions, scalars, formats, and Go's display of values.

rules.Rules is a kind's entry in validation's table; tags runs rules that upstream generates from declarative tags.
"""
