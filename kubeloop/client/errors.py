# SPDX-License-Identifier: Apache-2.0
"""Client errors other than a server's answers, which are `kubeloop.api.errors.ApiError`.

ClientError
├── ConfigError            no usable configuration: a missing file, an unknown context, a bad certificate
│   └── CredentialError    a credential plugin failed, or returned nothing usable
├── UsageError             an invalid call, such as a pod without a namespace (also a ValueError)
├── UnknownKind            neither built in nor found by discovery (also a LookupError)
└── TransportError         no answer was received
    ├── ConnectError       no connection: nothing was sent
    │   ├── TlsError       the TLS handshake failed
    │   └── ProxyError     the proxy refused the tunnel
    ├── ConnectionLost     the connection broke: a write may have happened or not
    ├── CallTimeout        the call took too long: a write may still happen (also a TimeoutError)
    └── ProtocolError      the response is not understood
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of all errors that are not the server's answer."""


class ConfigError(ClientError):
    """Unusable configuration; the message is one sentence for a user."""


class CredentialError(ConfigError):
    """Failure to obtain credentials."""


class UsageError(ClientError, ValueError):
    """Invalid call."""


class NoKindMatchError(ClientError, LookupError):
    """Resource that the server does not serve."""


class TransportError(ClientError):
    """Failure to receive the server's answer."""


class ConnectError(TransportError):
    """Failure to connect; nothing was sent."""


class TlsError(ConnectError):
    """Failure of the TLS handshake."""


class ProxyError(ConnectError):
    """Refusal by the proxy."""


class ConnectionLost(TransportError):
    """Connection that ended before the response did."""


class CallTimeout(TransportError, TimeoutError):
    """Response not complete within the call's timeout."""


class ProtocolError(TransportError):
    """Response that is not HTTP, or contradicts its headers."""
