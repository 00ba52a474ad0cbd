# SPDX-License-Identifier: Apache-2.0
"""Type checking of CEL expressions.

parse ─▶ checker.check (types, overloads) ─▶ literal_checks ─▶ compiler; types has the type system.
"""
