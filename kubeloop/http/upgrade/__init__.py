# SPDX-License-Identifier: Apache-2.0
"""Protocols after an HTTP upgrade: SPDY/3.1 and WebSocket.

handshake in a request's headers ──▶ UpgradeResponse ──▶ spdy.SpdyConnection or websocket.WebSocket
Both carry bytes for apiserver.streaming and implement byte_pipe.Carrier or run over one.
"""
