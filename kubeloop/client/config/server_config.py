# SPDX-License-Identifier: Apache-2.0
"""Configuration needed to reach a server, and the places where it is found."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubeloop.client.errors import ConfigError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificate or key: its text, or its file (read again when that changes)."""

    data: bytes = b""
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.file)


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """Exec plugin: a program that prints credentials."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"
    cluster_info: Mapping[str, Any] = field(default_factory=dict)  # passed to the plugin if provide_cluster_info is set


@dataclass(frozen=True, slots=True)
class ImpersonationConfig:
    """User to impersonate."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Address of one server and the client's credentials."""

    server: str
    authority: Pem = Pem()
    server_name: str = ""
    insecure: bool = False
    proxy_url: str = ""
    compression: bool = True
    namespace: str = DEFAULT_NAMESPACE
    certificate: Pem = Pem()
    key: Pem = Pem()
    token: str = ""
    token_file: str = ""
    exec_plugin: ExecConfig | None = None
    impersonation: ImpersonationConfig = ImpersonationConfig()

    def __post_init__(self) -> None:
        _check_server(self.server)
        if self.insecure and self.authority:
            raise ConfigError("specifying a root certificates file with the insecure flag is not allowed")
        if bool(self.certificate) != bool(self.key):
            raise ConfigError("a client certificate and its key must be given together")
        as_whom = self.impersonation
        if not as_whom.user and (as_whom.uid or as_whom.groups or as_whom.extra):
            raise ConfigError("requesting uid, groups or user-extra without impersonating a user")


def load_config(
    path: str | Path | None = None, context: str = "", *, environ: Mapping[str, str] | None = None
) -> ServerConfig:
    """Load kubectl's configuration: a given file, $KUBECONFIG, ~/.kube/config, or the pod's own cluster."""
    from kubeloop.client.config.kubeconfig import load_files

    environ = os.environ if environ is None else environ
    if path is not None:
        return load_files([Path(path)], context, must_exist=True)
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = environ.get("HOME", "")
    files = listed or ([Path(home) / ".kube" / "config"] if home else [])
    if any(file.exists() for file in files):
        return load_files(files, context)
    if context:
        raise ConfigError(f"context {context!r} was requested, but none of {_named(files)} exists")
    if "KUBERNETES_SERVICE_HOST" in environ:
        return in_cluster(environ)
    raise ConfigError(f"no server is configured: none of {_named(files)} exists, and this is not a pod")


def in_cluster(environ: Mapping[str, str], folder: Path = _SERVICE_ACCOUNT) -> ServerConfig:
    """Return the configuration of the cluster that this pod runs in, with its service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    token = folder / "token"
    if not host or not port:
        raise ConfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined to run in a cluster")
    if not token.exists():
        raise ConfigError(f"{token} is missing: this pod has no service account token")
    namespace, ca = folder / "namespace", folder / "ca.crt"
    return ServerConfig(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        authority=Pem(file=str(ca)) if ca.exists() else Pem(),
        namespace=namespace.read_text().strip() if namespace.exists() else DEFAULT_NAMESPACE,
        token_file=str(token),
    )


def _named(files: list[Path]) -> str:
    return ", ".join(map(str, files)) or "no file"


def _check_server(server: str) -> None:
    try:
        parts = urlsplit(server)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"the server address {server!r} cannot be parsed: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"the server address {server!r} is not an http or https URL")
