"""Authenticator of service account bearer tokens; the verifier is loaded with the first token."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens


def lazy_token_authenticator(tokens: Callable[[], ServiceAccountTokens]) -> Callable[[str], User | None]:
    """Return an authenticator for tokens that have the form of a JWT."""

    def recognize(token: str) -> User | None:
        return tokens().authenticate(token) if token.count(".") == 2 else None

    return recognize
