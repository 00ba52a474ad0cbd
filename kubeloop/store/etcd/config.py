# SPDX-License-Identifier: Apache-2.0
"""etcd configuration: endpoints, TLS and key prefix; also as one URL, which names the store."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from kubeloop.store.errors import StoreError

OUR_PREFIX = "/registry/"  # what every key of the API server begins with
_DEFAULT_PORT = 2379
_FILES = ("cafile", "certfile", "keyfile")


class EtcdConfig(msgspec.Struct, frozen=True):
    """Keys under `local_prefix` are stored under `prefix` in etcd; both end with a slash."""

    endpoints: tuple[str, ...]  # host:port
    prefix: str = OUR_PREFIX
    local_prefix: str = OUR_PREFIX
    tls: bool = False
    cafile: str = ""
    certfile: str = ""
    keyfile: str = ""

    def url(self) -> str:
        """URL of the store, which `config_of_url` parses."""
        files = {name: value for name in _FILES if (value := getattr(self, name))}
        if self.tls and not files:
            files["tls"] = "true"
        query = f"?{urlencode(files)}" if files else ""
        return f"etcd://{','.join(self.endpoints)}{quote(self.prefix.rstrip('/'))}{query}"


def config_of_url(url: str) -> EtcdConfig:
    """Parse `etcd://HOST:PORT,HOST:PORT[/PREFIX][?cafile=…&certfile=…&keyfile=…]`."""
    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if unknown := set(query) - {*_FILES, "tls"}:
        raise StoreError(f"the store's URL has an unknown option {sorted(unknown)[0]!r}")
    endpoints = tuple(_with_port(host) for host in parts.netloc.split(",") if host)
    if not endpoints:
        raise StoreError(f"the store's URL {url!r} has no server")
    return _checked(endpoints, parts.path, bool(query), query)


def config_of_servers(servers: str, prefix: str, files: dict[str, str]) -> EtcdConfig:
    """Convert kube-apiserver's flags: http or https URLs, all of one kind, separated by commas."""
    split = [urlsplit(server if "//" in server else f"http://{server}") for server in servers.split(",") if server]
    schemes = {one.scheme for one in split}
    if not split or not schemes <= {"http", "https"} or not all(one.netloc for one in split):
        raise StoreError(f"--etcd-servers {servers!r}: give URLs such as http://127.0.0.1:2379, separated by commas")
    if len(schemes) > 1:
        raise StoreError("--etcd-servers: all URLs must use TLS, or none")
    given = {name: value for name, value in files.items() if value}
    return _checked(tuple(_with_port(one.netloc) for one in split), prefix, schemes == {"https"}, given)


def _checked(endpoints: tuple[str, ...], prefix: str, tls: bool, files: dict[str, str]) -> EtcdConfig:
    if bool(files.get("certfile")) != bool(files.get("keyfile")):
        raise StoreError("etcd's client certificate and key must be given together")
    prefix = f"/{prefix.strip('/')}/" if prefix.strip("/") else OUR_PREFIX
    return EtcdConfig(
        endpoints,
        prefix,
        tls=tls,
        cafile=files.get("cafile", ""),
        certfile=files.get("certfile", ""),
        keyfile=files.get("keyfile", ""),
    )


def _with_port(host: str) -> str:
    bare = host.rpartition("]")[2] if "]" in host else host
    return host if ":" in bare else f"{host}:{_DEFAULT_PORT}"
