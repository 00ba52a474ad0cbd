"""Custom resources from typed classes.

CustomObject subclass ─▶ CustomKind (definition.py) ─▶ CustomResourceDefinition; schema.py derives its structural schema
"""
