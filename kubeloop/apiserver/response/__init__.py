# SPDX-License-Identifier: Apache-2.0
"""Responses in the negotiated format.

handlers ──▶ writers: objects, lists and watch events as JSON, YAML or protobuf ──▶ tables (server-side printing)
"""
