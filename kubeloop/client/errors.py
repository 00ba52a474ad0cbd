"""What can go wrong before a server's answer is known; what a server answers is an `kubeloop.api.errors.ApiError`.

ClientError
├── ConfigError            no usable configuration: a missing file, an unknown context, a bad certificate
│   └── CredentialError    a credential plugin failed, or gave nothing usable
├── UsageError             a call that makes no sense, such as a pod without a namespace (also a ValueError)
├── UnknownKind            neither built in nor found by discovery (also a LookupError)
└── TransportError         the server was not heard
    ├── ConnectError       no connection: nothing was sent
    │   ├── TlsError       the peer is not who it should be, or refuses us
    │   └── ProxyError     the proxy on the way said no
    ├── ConnectionLost     it broke in the middle: a write may have happened or not
    ├── CallTimeout        it took too long: a write may still happen (also a TimeoutError)
    └── ProtocolError      what came is no answer that we understand
"""

from __future__ import annotations


class ClientError(Exception):
    """Anything that is not the server's answer."""


class ConfigError(ClientError):
    """The configuration cannot be used; the message is one sentence for a person."""


class CredentialError(ConfigError):
    """No credentials could be had."""


class UsageError(ClientError, ValueError):
    """The call itself is wrong."""


class UnknownKind(ClientError, LookupError):
    """The server serves no such resource."""


class TransportError(ClientError):
    """The server was not heard."""


class ConnectError(TransportError):
    """No connection was made; nothing was sent."""


class TlsError(ConnectError):
    """The TLS handshake failed."""


class ProxyError(ConnectError):
    """The proxy did not let us through."""


class ConnectionLost(TransportError):
    """The connection ended before the answer did."""


class CallTimeout(TransportError, TimeoutError):
    """No whole answer within the call's time."""


class ProtocolError(TransportError):
    """The answer is not HTTP, or not what its headers say."""
