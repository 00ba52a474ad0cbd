# SPDX-License-Identifier: Apache-2.0
"""Request-header authentication: users named by a front proxy whose certificate a trusted authority signed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

from kubeloop.apiserver.authentication.certificate_chain import CertificateVerifier
from kubeloop.apiserver.authentication.certificates import user_of_certificate
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.http import Request


@dataclass(frozen=True, slots=True)
class RequestHeaderConfig:
    """Authorities of the front proxy and header names; the defaults are those that the aggregator sends."""

    authorities: Path
    allowed_names: tuple[str, ...] = ()  # common names of proxy certificates; empty: any
    username_headers: tuple[str, ...] = ("X-Remote-User",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)


class RequestHeaderAuthenticator:
    """Request-header authenticator; certificates of proxies and of users have authorities of their own."""

    def __init__(
        self, config: RequestHeaderConfig, client_authorities: Sequence[Path], now: Callable[[], datetime]
    ) -> None:
        self._config = config
        self._proxies = CertificateVerifier((config.authorities,), now)
        # Returns True if a certificate may identify a user itself: those of proxies may not.
        self.can_identify_user = CertificateVerifier(client_authorities, now).verify
        self._name_headers = frozenset(map(str.lower, config.username_headers))

    def user_of(self, request: Request) -> User | None:
        """Return the user named by the proxy; None if the client is no proxy or names no user."""
        if self._name_headers.isdisjoint(request.headers):
            return None
        config, certificate = self._config, request.peer_certificate
        name = _first(request, config.username_headers)
        if certificate is None or not name or not self._is_allowed(certificate, request.peer_intermediates):
            return None
        names = map(str.lower, config.group_headers)
        groups = tuple(group for name in names for group in request.header_values(name) if group)
        if AUTHENTICATED not in groups and name != ANONYMOUS.name:
            groups = (*groups, AUTHENTICATED)
        return User(name, groups, _first(request, config.uid_headers), self._extra(request))

    def names_user(self, header: str) -> bool:
        """Return True for a header in which a front proxy names a user, in lower case."""
        config = self._config
        names = (*config.username_headers, *config.uid_headers, *config.group_headers)
        return header in map(str.lower, names) or header.startswith(tuple(map(str.lower, config.extra_prefixes)))

    def _is_allowed(self, certificate: bytes, intermediates: tuple[bytes, ...]) -> bool:
        allowed = self._config.allowed_names
        if allowed:
            named = user_of_certificate(certificate)
            if named is None or named.name not in allowed:
                return False
        return self._proxies.verify(certificate, intermediates)

    def _extra(self, request: Request) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, tuple[str, ...]] = {}
        for prefix in map(str.lower, self._config.extra_prefixes):
            for name in request.headers:
                if name.startswith(prefix):
                    key = unquote(name.removeprefix(prefix))
                    found[key] = (*found.get(key, ()), *request.header_values(name))
        return tuple(sorted(found.items()))


def _first(request: Request, names: Sequence[str]) -> str:
    """Return the first value of the first header that has one."""
    values = (next(iter(request.header_values(name.lower())), "") for name in names)
    return next(filter(None, values), "")
