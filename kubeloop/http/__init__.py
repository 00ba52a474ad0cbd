"""The HTTP/1.1 server under the API server; it knows connections and bytes, nothing of Kubernetes.

socket → reading (llhttp, limits) → handler(Request)            one at a time, in order
                                        │ Response | StreamResponse | HijackResponse
socket ← outbox (cork, slices, pauses) ← head, compression, stream
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
