# SPDX-License-Identifier: Apache-2.0
"""gRPC client connections over HTTP/2: frames, header blocks, and the responses of calls. Knows no messages.

caller ─▶ http2.Http2Connection: frames, flow control, deadlines ─ hpack: header blocks ─▶ streams: responses, status
"""
