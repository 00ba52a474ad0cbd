"""HTTP/1.1 server of the API server: connections and bytes, without knowledge of Kubernetes.

socket → request_reader (llhttp, limits) → handler(Request)         one at a time, in order
                                               │ Response | StreamResponse | HijackResponse
socket ← write_buffer (cork, slices, pauses) ← response_head, compression, stream
"""

from kubeloop.http.limits import Hooks, Limits
from kubeloop.http.messages import (
    Handler,
    HijackResponse,
    NoResponse,
    Request,
    Response,
    StreamResponse,
    frame,
)
from kubeloop.http.server import Server, serve
from kubeloop.http.stream import Stream

__all__ = [
    "Handler",
    "HijackResponse",
    "Hooks",
    "Limits",
    "NoResponse",
    "Request",
    "Response",
    "Server",
    "Stream",
    "StreamResponse",
    "frame",
    "serve",
]
