# SPDX-License-Identifier: Apache-2.0
"""gRPC client connections over HTTP/2: frames, header blocks, the responses of calls, and classes for messages.

caller ─▶ http2.Http2Connection: frames, flow control, deadlines ─ hpack: header blocks ─▶ streams: responses, status
caller of a local socket ─▶ channel.UnixChannel ─ message: structs to bytes and back ─▶ http2
"""
