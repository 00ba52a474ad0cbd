"""What objects are. Pure: no I/O, no clock.

wire bytes ── codec ──▶ frozen structs (generated/) ── defaults ── validation ──▶ wire bytes
                  schema.Node (list keys, merge keys) ──▶ patches, server-side apply, OpenAPI
"""
