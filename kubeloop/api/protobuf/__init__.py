# SPDX-License-Identifier: Apache-2.0
"""Protobuf codec, for typed Go clients.

    body ── envelope ──▶ apiVersion, kind, raw ── messages (by number) ──▶ plain JSON ──▶ the usual decoding
    plain JSON ── messages (by name) ──▶ raw ── envelope ──▶ response, or a watch event

The table `generated/protobuf.json` has the layout of each type. It is read on the first use.
"""

from __future__ import annotations

from kubeloop.api.protobuf.envelope import (
    Envelope,
    decode_object,
    encode_object,
    encode_watch_event,
    is_known,
    open_envelope,
)
from kubeloop.protobuf_wire import ProtobufError

__all__ = [
    "Envelope",
    "ProtobufError",
    "decode_object",
    "encode_object",
    "encode_watch_event",
    "is_known",
    "open_envelope",
]
