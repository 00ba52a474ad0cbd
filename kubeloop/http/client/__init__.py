# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 client: one connection with one exchange at a time, without knowledge of Kubernetes.

messages: encode_request ─▶ connection: HttpClientConnection ─▶ socket
ResponseHead, body ◀── connection ◀── response_reader: ResponseReader (llhttp, limits, no I/O) ◀── socket

The owner of a connection dials it, and words its failures: see `ErrorOf`. After an upgrade it takes the transport.
"""

from kubeloop.http.client.connection import HttpClientConnection
from kubeloop.http.client.messages import (
    ConnectionFailure,
    ErrorOf,
    FailureKind,
    InvalidRequestHead,
    ResponseHead,
    encode_request,
)
from kubeloop.http.client.response_reader import ResponseReader

__all__ = [
    "ConnectionFailure",
    "ErrorOf",
    "FailureKind",
    "HttpClientConnection",
    "InvalidRequestHead",
    "ResponseHead",
    "ResponseReader",
    "encode_request",
]
