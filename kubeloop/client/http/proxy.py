# SPDX-License-Identifier: Apache-2.0
"""Selects the proxy of a server: from the kubeconfig, else from the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from kubeloop.client.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Proxy:
    """HTTP proxy that supports CONNECT."""

    host: str
    port: int
    user: str = ""
    password: str = ""


def proxy_for(url: str, explicit: str, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy for a server; the environment's is not used for loopback and NO_PROXY hosts."""
    if explicit:
        return parse_proxy(explicit)
    server = urlsplit(url)
    names = ("HTTPS_PROXY", "https_proxy") if server.scheme == "https" else ("HTTP_PROXY", "http_proxy")
    text = next((environ[name] for name in names if environ.get(name)), "")
    host = server.hostname or ""
    if not text or is_loopback(host):
        return None
    port = server.port or (443 if server.scheme == "https" else 80)
    if _is_excepted(host, port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return parse_proxy(text)


def parse_proxy(text: str) -> Proxy:
    """Parse `http://user:password@host:port`, or just `host:port`."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port or 80
    except ValueError as error:
        raise ConfigError(f"the proxy address {text!r} cannot be parsed: {error}") from None
    if parts.scheme != "http":
        raise ConfigError(f"the proxy address {text!r} has the scheme {parts.scheme}; only http is supported")
    if not parts.hostname:
        raise ConfigError(f"the proxy address {text!r} has no host")
    return Proxy(parts.hostname, port, unquote(parts.username or ""), unquote(parts.password or ""))


def is_loopback(host: str) -> bool:
    """Return True if a host is localhost or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    return any(_matches(host, port, one.strip().lower()) for one in exceptions.split(",") if one.strip())


def _matches(host: str, port: int, pattern: str) -> bool:
    if pattern == "*":
        return True
    address = _address(host)
    if "/" in pattern:
        try:
            return address is not None and address in ipaddress.ip_network(pattern, strict=False)
        except ValueError:
            return False
    if pattern.count(":") == 1 or pattern.startswith("["):
        pattern, _, only = pattern.rpartition(":") if not pattern.endswith("]") else (pattern, "", "")
        if only and only != str(port):
            return False
        pattern = pattern.strip("[]")
    if address is not None:
        return _address(pattern) == address
    # `.example.com` and `*.example.com` mean what is below, `example.com` means itself too.
    below = pattern.removeprefix("*")
    if below.startswith("."):
        return host.endswith(below)
    return host == below or host.endswith("." + below)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
