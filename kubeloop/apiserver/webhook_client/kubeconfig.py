"""kubeconfig files of webhook clients: the server to call, its authorities, and credentials by host."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from kubeloop.apiserver.aggregator.endpoints import HostPort
from kubeloop.apiserver.webhook_client.client import WebhookHttpClient
from kubeloop.apiserver.webhook_client.client_config import WebhookTarget
from kubeloop.apiserver.webhook_client.credentials import KubeconfigPart, WebhookCredentials, decode_pem

_HTTPS = 443


class WebhookKubeconfigError(ValueError):
    """Error for an invalid kubeconfig; the message is one sentence for the operator."""


class KubeconfigCluster(KubeconfigPart, frozen=True):
    """Server of a kubeconfig and how to verify it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""


class _Context(KubeconfigPart, frozen=True):
    cluster: str = ""
    user: str = ""


class _NamedCluster(KubeconfigPart, frozen=True):
    name: str = ""
    cluster: KubeconfigCluster = KubeconfigCluster()


class _NamedUser(KubeconfigPart, frozen=True):
    name: str = ""
    user: WebhookCredentials = WebhookCredentials()


class _NamedContext(KubeconfigPart, frozen=True):
    name: str = ""
    context: _Context = _Context()


class WebhookKubeconfig(KubeconfigPart, frozen=True):
    """Contents of a kubeconfig file."""

    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = ""

    def credentials_for(self, host_port: str) -> WebhookCredentials:
        """Return the user for a server: by its name, a wildcard of its domain, `*`, or of the current context."""
        users = {one.name: one.user for one in self.users}
        for name in _user_names(host_port):
            if name in users:
                return users[name]
        context = self._context()
        return users.get(context.user, WebhookCredentials()) if context is not None else WebhookCredentials()

    def target(self) -> WebhookTarget:
        """Return the server of the current context with the user; raises `WebhookKubeconfigError`."""
        context = self._context()
        cluster = next((one.cluster for one in self.clusters if context and one.name == context.cluster), None)
        if context is None or cluster is None or not cluster.server:
            raise WebhookKubeconfigError(
                "invalid configuration: no configuration has been provided, "
                "try setting KUBERNETES_MASTER environment variable"
            )
        user = next((one.user for one in self.users if one.name == context.user), WebhookCredentials())
        url = urlsplit(cluster.server)
        host, port = url.hostname or "", url.port or _HTTPS
        trust = partial(_ssl_context, cluster, user)
        client = WebhookHttpClient(url.netloc, lambda: HostPort(host, port), trust, cluster.tls_server_name or host)
        path = url.path.rstrip("/") or "/"
        return WebhookTarget(client, f"https://{url.netloc}{path}", path, user)

    def _context(self) -> _Context | None:
        return next((one.context for one in self.contexts if one.name == self.current_context), None)


def read_webhook_kubeconfig(path: Path) -> WebhookKubeconfig:
    """Read a file; raises `WebhookKubeconfigError`. File names in it are relative to its folder."""
    import yaml

    try:
        config = msgspec.convert(yaml.safe_load(path.read_text()) or {}, WebhookKubeconfig)
    except OSError as error:
        raise WebhookKubeconfigError(f"stat {path}: {(error.strerror or '').lower()}") from None
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise WebhookKubeconfigError(f'error loading config file "{path}": {error}') from None
    for one in config.users:
        if one.user.exec is not None or one.user.auth_provider is not None:
            raise WebhookKubeconfigError(f"{path}: user {one.name}: credentials of plugins are not supported")
    return _with_absolute_paths(config, path.parent)


def _with_absolute_paths(config: WebhookKubeconfig, folder: Path) -> WebhookKubeconfig:
    def resolve(part: Any, *fields: str) -> Any:
        found = {name: str(folder / getattr(part, name)) for name in fields if getattr(part, name)}
        return msgspec.structs.replace(part, **found)

    clusters = [
        msgspec.structs.replace(one, cluster=resolve(one.cluster, "certificate_authority")) for one in config.clusters
    ]
    users = [
        msgspec.structs.replace(one, user=resolve(one.user, "token_file", "client_certificate", "client_key"))
        for one in config.users
    ]
    return msgspec.structs.replace(config, clusters=tuple(clusters), users=tuple(users))


def _user_names(host_port: str) -> Iterator[str]:
    """Yield the names under which a kubeconfig may have the user for a server, the most specific first."""
    host, _, port = host_port.rpartition(":")
    for target in (host_port, host) if port == str(_HTTPS) else (host_port,):
        yield target
        labels = target.split(".")
        yield from ("*." + ".".join(labels[index:]) for index in range(1, len(labels)))
    yield "*"


def _ssl_context(cluster: KubeconfigCluster, user: WebhookCredentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.certificate_authority_data:
        context.load_verify_locations(cadata=decode_pem(cluster.certificate_authority_data).decode("ascii"))
    elif cluster.certificate_authority:
        context.load_verify_locations(cafile=cluster.certificate_authority)
    else:
        context.load_default_certs()
    user.add_certificate(context)
    return context
