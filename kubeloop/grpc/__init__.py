# SPDX-License-Identifier: Apache-2.0
"""gRPC over HTTP/2: client connections, a server at local sockets, and classes for messages.

caller ─▶ http2.Http2Connection: frames, flow control, deadlines ─ hpack: header blocks ─▶ streams: responses, status
caller of a local socket ─▶ channel.UnixChannel ─ message: structs to bytes and back ─▶ http2
client of a local socket ─▶ server ─ message ─▶ methods of services
"""
