# SPDX-License-Identifier: Apache-2.0
"""Custom resources from typed classes.

CustomObject subclass ─▶ CustomKind (definition.py) ─▶ CustomResourceDefinition; schema.py derives its structural schema
"""
