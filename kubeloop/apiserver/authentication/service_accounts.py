"""Bearer tokens of service accounts; what checks them is loaded when the first one is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kubeloop.apiserver.request.context import User

if TYPE_CHECKING:
    from kubeloop.apiserver.authentication.service_account_tokens import ServiceAccountTokens


def recognizer_of(tokens: Callable[[], ServiceAccountTokens]) -> Callable[[str], User | None]:
    """Whose token it is, if it has the form of a signed one."""

    def recognize(token: str) -> User | None:
        return tokens().authenticate(token) if token.count(".") == 2 else None

    return recognize
