"""Bootstrap tokens: secrets of kube-system by which new nodes and the cluster come to know each other."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Secret
from kubeloop.api.scalars.times import parse_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import Context
from kubeloop.runtime.informer.informer import Informer

NAMESPACE: Final = "kube-system"
TYPE: Final = "bootstrap.kubernetes.io/token"
_NAME = re.compile("bootstrap-token-([a-z0-9]{6})")


class Token(NamedTuple):
    identifier: str
    secret: str


def bootstrap_secrets(context: Context) -> Informer:
    """The secrets that are such tokens."""
    return context.informers.of(resource_of_class(Secret), namespace=NAMESPACE, fields=f"type={TYPE}")


def seconds_left(secret: Secret, now: datetime) -> float | None:
    """How long a token still holds: nothing for one that never ends, zero for one whose end can't be read."""
    told = secret.data.get("expiration", b"")
    if not told:
        return None
    try:
        return max((parse_time(told.decode()) - now).total_seconds(), 0.0)
    except ValueError:
        return 0.0


def signing_token(secret: Secret, now: datetime) -> Token | None:
    """The token in a secret, if it is one to sign with at this moment."""
    named = _NAME.fullmatch(secret.metadata.name)
    identifier, password = _text(secret, "token-id"), _text(secret, "token-secret")
    if named is None or named[1] != identifier or not password:
        return None
    if seconds_left(secret, now) == 0.0 or _text(secret, "usage-bootstrap-signing") != "true":
        return None
    return Token(identifier, password)


def _text(secret: Secret, key: str) -> str:
    return secret.data.get(key, b"").decode(errors="replace")
