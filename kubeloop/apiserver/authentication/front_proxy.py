"""Request-header authentication: users named by a front proxy whose certificate a trusted authority signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

from kubeloop.apiserver.authentication.certificate_chain import CertificateVerifier
from kubeloop.apiserver.authentication.certificates import user_of_certificate
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.http import Request

_SEPARATOR = ", "  # separator of repeated headers in the HTTP layer


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
        self._clients = CertificateVerifier(client_authorities, now)

    def user_of(self, request: Request) -> User | None:
        """Return the user named by the proxy; None if the client is no proxy or names no user."""
        config, certificate = self._config, request.peer_certificate
        name = next(_values(request, config.username_headers), "")
        if certificate is None or not name or not self._is_allowed(certificate, request.peer_intermediates):
            return None
        groups = tuple(group for one in _values(request, config.group_headers) for group in one.split(_SEPARATOR))
        if AUTHENTICATED not in groups and name != ANONYMOUS.name:
            groups = (*groups, AUTHENTICATED)
        return User(name, groups, next(_values(request, config.uid_headers), ""), self._extra(request))

    def can_identify_user(self, certificate: bytes, intermediates: tuple[bytes, ...]) -> bool:
        """Return True if the certificate may identify a user itself: those of proxies may not."""
        return self._clients.verify(certificate, intermediates)

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
            for name, value in request.headers.items():
                if name.startswith(prefix):
                    key = unquote(name.removeprefix(prefix))
                    found[key] = (*found.get(key, ()), *value.split(_SEPARATOR))
        return tuple(sorted(found.items()))


def _values(request: Request, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if value := request.headers.get(name.lower(), ""):
            yield value
