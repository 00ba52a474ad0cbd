"""API client of every component: one client, two transports.

caller ─▶ Client (client.py): verbs, retries, rate limit ─┬─▶ HttpTransport: pool ─ connection ─ TLS ─▶ any server
                                                          └─▶ in-process transport of a server, passed in
config/: server address and credentials. discovery/: RESTMapper and discovery. http/: the HTTP transport.
errors.py: errors other than the server's answers. sync.py: the same client without async, for scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.client.client import Client

if TYPE_CHECKING:
    from kubeloop.client.config.server_config import ServerConfig, load_config
    from kubeloop.client.http.connect import connect
    from kubeloop.client.sync import SyncClient

__all__ = ["Client", "ServerConfig", "SyncClient", "connect", "load_config"]

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
