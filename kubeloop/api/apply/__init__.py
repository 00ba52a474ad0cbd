# SPDX-License-Identifier: Apache-2.0
"""Managed fields and server-side apply. Pure: plain JSON values in, plain JSON values out.

create, update, patch ── compare (old, new) ──▶ update_field_owners ──┐
                                                                      ├──▶ metadata.managedFields
apply ── validate ── merge ── prune ── conflicts? ────────────────────┘
                 shape: a schema.SchemaNode as ownership sees it; fields.fieldset: FieldsV1 trees and their algebra
"""
