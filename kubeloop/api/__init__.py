# SPDX-License-Identifier: Apache-2.0
"""API machinery and types: decoding, defaults, validation, patches, apply. Pure: no I/O, no clock.

wire bytes ── codec ──▶ frozen structs (generated/) ── defaults ── validation ──▶ wire bytes
                  schema.Node (list keys, merge keys) ──▶ patches, server-side apply, OpenAPI
"""
