"""Parsing of CEL expressions.

text ─▶ lexer.tokenize ─▶ parser.parse ── macros expand ─▶ syntax tree
"""
