"""How every component speaks to an API server: one client, two transports.

caller ─▶ Client (client.py): verbs, retries, rate limit ─┬─▶ HttpTransport: pool ─ connection ─ TLS ─▶ any server
                                                          └─▶ the entrance of a server in this process, handed in
config.py, kubeconfig.py, credentials.py, exec_plugin.py: where the server is and who we are to it.
errors.py: what can go wrong on the way. sync.py: the same client for scripts, without async.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.client.client import Client

if TYPE_CHECKING:
    from kubeloop.client.config.server_config import ServerConfig, load_config
    from kubeloop.client.http.connect import connect
    from kubeloop.client.sync import SyncClient

__all__ = ["Client", "ServerConfig", "SyncClient", "connect", "load_config"]

# A process that is handed its transport never loads what only HTTP needs.
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
