# SPDX-License-Identifier: Apache-2.0
"""API client of every component: one client, two transports.

caller ─▶ Client (client.py): verbs, retries, rate limit ─┬─▶ HttpTransport: pool ─ connection ─ TLS ─▶ any server
                                                          └─▶ in-process transport of a server, passed in
config/: server address and credentials. discovery/: RESTMapper and discovery. http/: the HTTP transport.
errors.py: errors other than the server's answers. sync.py: the same client without async, for scripts.
The names in `__all__` are public, with all errors that a call can raise; the modules are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.api.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    MethodNotAllowed,
    NotAcceptable,
    NotFound,
    RequestEntityTooLarge,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
)
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import ListResult, WatchEvent
from kubeloop.api.unstructured import PartialObjectMetadata, Unstructured
from kubeloop.client.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import (
    CallTimeout,
    ClientError,
    ConfigError,
    ConnectError,
    ConnectionLost,
    CredentialError,
    NoKindMatchError,
    ProtocolError,
    ProxyError,
    TlsError,
    TransportError,
    UsageError,
)

if TYPE_CHECKING:
    from kubeloop.client.config.server_config import ServerConfig, load_config
    from kubeloop.client.http.connect import connect
    from kubeloop.client.sync import SyncClient

__all__ = [
    "AlreadyExists",
    "ApiError",
    "BadRequest",
    "CallTimeout",
    "Client",
    "ClientError",
    "ConfigError",
    "Conflict",
    "ConnectError",
    "ConnectionLost",
    "CredentialError",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "ListResult",
    "MethodNotAllowed",
    "NoKindMatchError",
    "NotAcceptable",
    "NotFound",
    "PartialObjectMetadata",
    "ProtocolError",
    "ProxyError",
    "RequestEntityTooLarge",
    "Resource",
    "ServerConfig",
    "ServerTimeout",
    "ServiceUnavailable",
    "SyncClient",
    "Timeout",
    "TlsError",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "Unstructured",
    "UnsupportedMediaType",
    "UsageError",
    "WatchEvent",
    "connect",
    "load_config",
    "resource_of_class",
]

# Loaded lazily: a process with an in-process transport does not need the HTTP modules.
_LATER = {
    "ServerConfig": "kubeloop.client.config.server_config",
    "SyncClient": "kubeloop.client.sync",
    "connect": "kubeloop.client.http.connect",
    "load_config": "kubeloop.client.config.server_config",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
