"""Connections to containers as Kubernetes' clients open them: commands and forwarded ports, in all their protocols.

exec, attach ─┬─ WebSocket: a byte in front of each message names the channel ─┐
              └─ SPDY/3.1: a stream for each ──────────────────────────────────┴─▶ Streams ─▶ run(streams) ─▶ Status
port-forward ─┬─ WebSocket: two channels a port ────────────────────────┐
              └─ SPDY/3.1, also through a WebSocket: two streams a call ┴─▶ Duplex ─▶ forward(port, duplex)

Used by the API server, and by the port of a node; what runs at the other end is handed in.
"""
