"""Request-header authentication: users named by a front proxy whose certificate a trusted authority signed."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from urllib.parse import unquote

from kubeloop.apiserver.authentication.certificates import issuer_name, subject_name, user_of_certificate
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.http import Request

_PEM = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
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
    """Request-header authenticator; proxy certificates must be signed directly by one of the authorities."""

    def __init__(self, config: RequestHeaderConfig, client_authorities: Sequence[Path] = ()) -> None:
        self._config = config
        self._is_proxys = _SignatureCheck([config.authorities]).has
        self._is_users = _SignatureCheck(client_authorities).has

    def user_of(self, request: Request) -> User | None:
        """Return the user named by the proxy; None if the client is no proxy or names no user."""
        config, certificate = self._config, request.peer_certificate
        name = next(_values(request, config.username_headers), "")
        if certificate is None or not name or not self._is_allowed(certificate):
            return None
        groups = tuple(group for one in _values(request, config.group_headers) for group in one.split(_SEPARATOR))
        if AUTHENTICATED not in groups and name != ANONYMOUS.name:
            groups = (*groups, AUTHENTICATED)
        return User(name, groups, next(_values(request, config.uid_headers), ""), self._extra(request))

    def names_a_user(self, certificate: bytes) -> bool:
        """Return True if the certificate may identify a user itself; those of proxies may not."""
        return self._is_users(certificate) or not self._is_proxys(certificate)

    def _is_allowed(self, certificate: bytes) -> bool:
        allowed = self._config.allowed_names
        if allowed:
            named = user_of_certificate(certificate)
            if named is None or named.name not in allowed:
                return False
        return self._is_proxys(certificate)

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


class _SignatureCheck:
    """Checks if one of some authorities signed a certificate; results are cached."""

    def __init__(self, authorities: Sequence[Path]) -> None:
        self._authorities = tuple(authorities)
        self.has = lru_cache(maxsize=256)(self._look)

    @cached_property
    def _names(self) -> frozenset[bytes]:
        texts = (path.read_text() for path in self._authorities)
        return frozenset(subject_name(ssl.PEM_cert_to_DER_cert(pem)) for text in texts for pem in _PEM.findall(text))

    def _look(self, certificate: bytes) -> bool:
        if issuer_name(certificate) not in self._names:
            return False
        # Imported only for certificates that name this authority as issuer: it takes 60 ms.
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

        leaf = x509.load_der_x509_certificate(certificate)
        for path in self._authorities:
            for authority in x509.load_pem_x509_certificates(path.read_bytes()):
                try:
                    leaf.verify_directly_issued_by(authority)
                except (ValueError, TypeError, InvalidSignature):
                    continue
                return True
        return False
