# SPDX-License-Identifier: Apache-2.0
"""CEL, the Common Expression Language, for validation rules, admission policies and match conditions.

text ─▶ lexer ─▶ parser (macros expand) ─▶ syntax tree ─▶ checker (types, overloads) ─▶ program (closures) ─▶ value

An `Environment` declares variables, types and functions. Nothing here does I/O; every evaluation has a
budget, so that no expression keeps the process busy for long.
"""
