"""Protocols after an HTTP upgrade: SPDY/3.1 and WebSocket.

handshake in a request's headers ──▶ HijackResponse ──▶ spdy.SpdyConnection (frames: spdy_frames) or websocket.WebSocket
Both carry bytes for apiserver.streaming and implement byte_pipe.Carrier or run over one.
"""
