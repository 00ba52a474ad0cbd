"""Objects in protocol buffers, as typed Go clients send and read them.

    body ── envelope ──▶ apiVersion, kind, raw ── messages (by number) ──▶ plain JSON ──▶ the usual way of an object
    plain JSON ── messages (by name) ──▶ raw ── envelope ──▶ answer, or a framed watch event

The table `generated/protobuf.json` tells how each type is laid out. It is read when the first client asks for it.
"""

from __future__ import annotations

from kubeloop.api.protobuf.envelope import (
    Envelope,
    is_known,
    open_envelope,
    read_object,
    watch_frame,
    write_object,
)
from kubeloop.api.protobuf.wire import ProtobufError

__all__ = [
    "Envelope",
    "ProtobufError",
    "is_known",
    "open_envelope",
    "read_object",
    "watch_frame",
    "write_object",
]
