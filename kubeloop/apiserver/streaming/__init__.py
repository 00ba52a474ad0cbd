# SPDX-License-Identifier: Apache-2.0
"""Streaming connections to containers: exec, attach and port forwarding, in all of Kubernetes' protocols.

exec, attach ─┬─ WebSocket: a byte in front of each message names the channel ─┐
              └─ SPDY/3.1: a stream for each ──────────────────────────────────┴─▶ Streams ─▶ run(streams) ─▶ Status
port-forward ─┬─ WebSocket: two channels per port ────────────────────────────────┐
              └─ SPDY/3.1, also through a WebSocket: two streams per connection ──┴─▶ Duplex ─▶ forward(port, duplex)

Used by the API server and by the kubelet's server; the container side is passed in.
"""
