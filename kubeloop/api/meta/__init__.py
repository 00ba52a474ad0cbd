# SPDX-License-Identifier: Apache-2.0
"""Object metadata: conditions, owner references, name rules, field paths and field errors.

the API server's handlers ── object_meta ──▶ metadata of created, updated and deleted objects
validation ── name_rules ──▶ messages ── field_path ──▶ FieldError ──▶ errors.invalid
controllers ── conditions, owner_references
"""
