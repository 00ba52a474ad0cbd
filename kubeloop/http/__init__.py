# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1: connections and bytes, without knowledge of Kubernetes. The server; for clients see `kubeloop.http.client`.

socket → request_reader (llhttp, limits) → handler(Request)         one at a time, in order
                                               │ Response | StreamResponse | UpgradeResponse
socket ← write_buffer (cork, slices, pauses) ← response_head, compression, stream
"""

from kubeloop.http.limits import HttpHooks, HttpLimits
from kubeloop.http.messages import (
    Handler,
    NoResponse,
    Request,
    Response,
    StreamResponse,
    TakeOver,
    TruncatedRequest,
    UpgradeResponse,
    encode_chunk,
)
from kubeloop.http.server import HttpServer, serve
from kubeloop.http.stream import ResponseStream

__all__ = [
    "Handler",
    "HttpHooks",
    "HttpLimits",
    "HttpServer",
    "NoResponse",
    "Request",
    "Response",
    "ResponseStream",
    "StreamResponse",
    "TakeOver",
    "TruncatedRequest",
    "UpgradeResponse",
    "encode_chunk",
    "serve",
]
