# SPDX-License-Identifier: Apache-2.0
"""Structural schemas of custom resources, as pure functions on plain documents.

schema ─ model ─▶ Structural ─┬─ pruning:    removes undeclared fields
                              ├─ defaulting: sets missing fields that have a default
                              ├─ validation: errors with upstream's messages
                              └─ typing:     the Node that patches and server-side apply walk along
schema ─ checks ─▶ errors of a definition's schema
document ─▶ Instance: an object of a custom resource
"""
