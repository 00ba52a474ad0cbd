"""Parsing of CEL expressions.

text ─▶ lexer.words_of ─▶ parser.parse ── macros expand ─▶ syntax tree
"""
