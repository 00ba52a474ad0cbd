# SPDX-License-Identifier: Apache-2.0
"""Validation rules shared by many kinds: metadata, conditions, scalars, formats, and Go's display of values.

rules.ValidationRules is a kind's entry in validation's table; tags runs upstream's generated (declarative) rules.
"""
