# SPDX-License-Identifier: Apache-2.0
"""Parsing of requests: path, query options, headers, and the context that the handlers receive.

app ──▶ routing (path → Target) ──▶ negotiation (Accept → format) ──▶ context ──▶ handlers
handlers ──▶ list_options, write_options, preconditions (checks of the query and the body's options)
fault_injection wraps a handler's call; auditing_tls and etag serve the listener and non-resource paths.
"""
