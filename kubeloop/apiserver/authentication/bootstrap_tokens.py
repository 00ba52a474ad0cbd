# SPDX-License-Identifier: Apache-2.0
"""Bootstrap tokens: secrets in kube-system with which a new node requests its certificate."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubeloop.api.scalars.times import parse_time
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.clock import Clock

if TYPE_CHECKING:
    from kubeloop.apiserver.admission import Lookup

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_TYPE = "bootstrap.kubernetes.io/token"
_BOOTSTRAPPERS = "system:bootstrappers"
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class BootstrapTokenAuthenticator:
    """Authenticator of bootstrap tokens."""

    def __init__(self, objects: Lookup, clock: Clock) -> None:
        self._find = objects.get_object
        self._clock = clock

    def authenticate(self, token: str) -> User | None:
        """Return the user of a valid bootstrap token, else None."""
        form = _TOKEN.fullmatch(token)
        if form is None:
            return None
        identifier, secret_part = form.groups()
        secret = self._find("secrets", "kube-system", f"bootstrap-token-{identifier}")
        if secret is None or secret.metadata.deletion_timestamp is not None or secret.type != _TYPE:
            return None
        data: Mapping[str, bytes] = secret.data
        if not hmac.compare_digest(data.get("token-secret", b""), secret_part.encode()):
            return None
        if data.get("token-id") != identifier.encode() or data.get("usage-bootstrap-authentication") != b"true":
            return None
        groups = _groups(data)
        if groups is None or self._expired(data):
            return None
        return User(f"system:bootstrap:{identifier}", (*groups, AUTHENTICATED))

    def _expired(self, data: Mapping[str, bytes]) -> bool:
        """Return True if the token has expired; an unreadable time counts as expired."""
        text = data.get("expiration", b"").decode("utf-8", "replace")
        if not text:
            return False
        try:
            return parse_time(text) <= self._clock.now()
        except ValueError:
            return True


def _groups(data: Mapping[str, bytes]) -> list[str] | None:
    """Return the token's groups, sorted; None if one of them is not allowed."""
    listed = data.get("auth-extra-groups", b"").decode("utf-8", "replace")
    extra = listed.split(",") if listed else []
    if any(_GROUP.fullmatch(group) is None for group in extra):
        return None
    return sorted({_BOOTSTRAPPERS, *extra})
