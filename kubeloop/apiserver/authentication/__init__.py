# SPDX-License-Identifier: Apache-2.0
"""Authentication: by request headers of a front proxy, client certificate or bearer token, else anonymous.

request ─▶ front proxy ─▶ certificate ─▶ bearer token: static ─ bootstrap ─ service account
        ─ JWT authenticators, webhook (awaited) ─▶ anonymous, or Unauthorized
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kubeloop.api import errors
from kubeloop.apiserver.authentication.bearer_token import bearer_token_of
from kubeloop.apiserver.authentication.certificates import user_of_certificate
from kubeloop.apiserver.authentication.front_proxy import RequestHeaderAuthenticator, RequestHeaderConfig
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.http import Request

if TYPE_CHECKING:
    from kubeloop.apiserver.authentication.remote_tokens import RemoteTokenUnion
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens

__all__ = [
    "AUTHENTICATED",
    "Authenticator",
    "RequestHeaderAuthenticator",
    "RequestHeaderConfig",
    "TokenAuthenticator",
    "read_token_file",
    "user_of_certificate",
]

log = logging.getLogger(__name__)

# Beginnings of headers that identify a user; a configured front proxy may have others.
_CREDENTIALS = ("authorization", "x-remote-user", "x-remote-uid", "x-remote-group", "x-remote-extra-", "impersonate-")

# Returns the user of a token; None leaves it to the next.
TokenAuthenticator = Callable[[str], User | None]


class Authenticator:
    """Union of authenticators: certificates verified by TLS, then bearer tokens, static ones first."""

    def __init__(
        self,
        tokens: Mapping[str, User] | None = None,
        anonymous: bool = True,
        recognizers: Sequence[TokenAuthenticator] = (),
        front_proxy: RequestHeaderAuthenticator | None = None,
        remote: RemoteTokenUnion | None = None,
        anonymous_paths: frozenset[str] | None = None,
    ) -> None:
        # Looked up by a keyed hash, so that timing reveals nothing about valid tokens.
        self._static_tokens = dict(tokens or {})
        self._token_authenticators = tuple(recognizers)
        self._anonymous = anonymous
        self._anonymous_paths = anonymous_paths  # None for all paths
        self._front_proxy = front_proxy
        self.remote = remote  # authenticators of tokens that other servers are asked about

    def set_front_proxy(self, front_proxy: RequestHeaderAuthenticator) -> None:
        """Use other authorities of front proxies from now on."""
        self._front_proxy = front_proxy

    def authenticate(self, request: Request) -> User | None:
        """Return the request's user, or None if `wait_user` has to be awaited; raises Unauthorized."""
        may_be_anonymous = self._anonymous
        if request.peer_certificate is not None:
            named = self._by_certificate(request, request.peer_certificate)
            if named is not None:
                return named
            # A certificate that no authority of users has signed is an invalid credential.
            may_be_anonymous = may_be_anonymous and self._can_identify_user(request, request.peer_certificate)
        token = _bearer_token(request)
        if token:
            return self._by_token(token)
        if may_be_anonymous and (self._anonymous_paths is None or request.path in self._anonymous_paths):
            return ANONYMOUS
        raise errors.unauthorized()

    def clear_credentials(self, request: Request) -> None:
        """Remove all headers by which a user is identified, so that the request can be forwarded to another server."""
        proxy = self._front_proxy
        for name in tuple(request.headers):
            if name.startswith(_CREDENTIALS) or (proxy is not None and proxy.names_user(name)):
                del request.headers[name]

    async def wait_user(self, request: Request) -> User:
        """Return the user of a request for which `authenticate` returned None; raises Unauthorized."""
        from kubeloop.apiserver.authentication.remote_tokens import TokenRejected

        assert self.remote is not None
        try:
            found = await self.remote.authenticate(_bearer_token(request), self.remote.audiences)
        except TokenRejected as problem:
            log.info("Unable to authenticate the request: [invalid bearer token, %s]", problem)
            raise errors.unauthorized() from None
        if found is None:
            raise errors.unauthorized()
        return found.user

    def _by_certificate(self, request: Request, certificate: bytes) -> User | None:
        proxy = self._front_proxy
        if proxy is not None:
            spoken_for = proxy.user_of(request)
            if spoken_for is not None:
                return spoken_for
            if not proxy.can_identify_user(certificate, request.peer_intermediates):
                return None
        return user_of_certificate(certificate)

    def _can_identify_user(self, request: Request, certificate: bytes) -> bool:
        """Return True if an authority of users has signed a certificate; without front proxies, TLS has checked it."""
        proxy = self._front_proxy
        return proxy is None or proxy.can_identify_user(certificate, request.peer_intermediates)

    def _by_token(self, token: str) -> User | None:
        """Return the user of a token, or None if other servers have to be asked; raises Unauthorized."""
        known = self.known_user(token)
        if known is not None:
            return known
        if self.remote is None:
            raise errors.unauthorized()
        return self.remote.cached_user(token)

    def known_user(self, token: str) -> User | None:
        """Return the user of a token that this server knows itself, or None."""
        known = self._static_tokens.get(token)
        if known is not None:
            return known
        for recognize in self._token_authenticators:
            user = recognize(token)
            if user is not None:
                return user
        return None


def _bearer_token(request: Request) -> str:
    """Return the bearer token of a request; empty if there is none."""
    header = request.headers.get("authorization")
    return "" if header is None else bearer_token_of(header)


def read_token_file(path: Path) -> dict[str, User]:
    """Read upstream's token auth file: lines of `token,user,uid,"group1,group2"`."""
    tokens: dict[str, User] = {}
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.reader(lines), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3 or not row[0].strip():
                raise ValueError(f"{path}: line {number} must have a token, a user and a uid")
            token, name, uid, *rest = (cell.strip() for cell in row)
            groups = tuple(filter(None, (group.strip() for group in rest[0].split(",")))) if rest else ()
            tokens[token] = User(name, (*groups, AUTHENTICATED), uid)
    return tokens


def lazy_token_authenticator(tokens: Callable[[], ServiceAccountTokens]) -> Callable[[str], User | None]:
    """Return an authenticator for tokens that have the form of a JWT; the verifier is loaded with the first."""

    def recognize(token: str) -> User | None:
        return tokens().authenticate(token) if token.count(".") == 2 else None

    return recognize
