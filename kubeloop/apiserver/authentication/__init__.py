"""Authentication: by request headers of a front proxy, client certificate or bearer token, else anonymous.

request ─▶ front proxy ─▶ certificate ─▶ bearer token: static ─ bootstrap ─ service account
        ─▶ anonymous, or Unauthorized
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kubeloop.api import errors
from kubeloop.apiserver.authentication.certificates import user_of_certificate
from kubeloop.apiserver.authentication.front_proxy import RequestHeaderAuthenticator, RequestHeaderConfig
from kubeloop.apiserver.authentication.token_file import read_token_file
from kubeloop.apiserver.request.context import ANONYMOUS, AUTHENTICATED, User
from kubeloop.http import Request

__all__ = [
    "AUTHENTICATED",
    "Authenticator",
    "RequestHeaderAuthenticator",
    "RequestHeaderConfig",
    "TokenAuthenticator",
    "read_token_file",
    "user_of_certificate",
]

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
    ) -> None:
        # Looked up by a keyed hash, so that timing reveals nothing about valid tokens.
        self._known = dict(tokens or {})
        self._recognizers = tuple(recognizers)
        self._anonymous = anonymous
        self._front_proxy = front_proxy

    def authenticate(self, request: Request) -> User:
        """Return the request's user; raises Unauthorized for an invalid credential."""
        if request.peer_certificate is not None:
            named = self._by_certificate(request, request.peer_certificate)
            if named is not None:
                return named
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, token = header.partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                return self._by_token(token.strip())
        if self._anonymous:
            return ANONYMOUS
        raise errors.unauthorized()

    def _by_certificate(self, request: Request, certificate: bytes) -> User | None:
        proxy = self._front_proxy
        if proxy is not None:
            spoken_for = proxy.user_of(request)
            if spoken_for is not None or not proxy.names_a_user(certificate):
                return spoken_for
        return user_of_certificate(certificate)

    def _by_token(self, token: str) -> User:
        known = self._known.get(token)
        if known is not None:
            return known
        for recognize in self._recognizers:
            user = recognize(token)
            if user is not None:
                return user
        raise errors.unauthorized()
