"""CEL, the Common Expression Language, as Kubernetes speaks it: rules of custom resources, policies, match conditions.

text ─▶ lexer ─▶ parser (macros expand) ─▶ syntax tree ─▶ checker (types, overloads) ─▶ program (closures) ─▶ value

An `Environment` says which variables, types and functions there are. Nothing here does I/O; every evaluation has a
budget, so that no expression keeps the process busy for long.
"""
