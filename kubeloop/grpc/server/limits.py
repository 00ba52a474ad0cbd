# SPDX-License-Identifier: Apache-2.0
"""Limits of a gRPC server: what its clients may make it store and wait for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrpcServerLimits:
    """Limits of each connection, and their number."""

    connections: int = 100
    streams: int = 100
    header_bytes: int = 16 << 10
    message_bytes: int = 16 << 20
    buffered_bytes: int = 64 << 20  # of all requests of a connection
    handshake_seconds: float = 10.0
