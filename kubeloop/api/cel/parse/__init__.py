# SPDX-License-Identifier: Apache-2.0
"""Parsing of CEL expressions.

text ─▶ lexer.tokenize ─▶ parser.parse ── macros expand ─▶ syntax tree
"""
