# SPDX-License-Identifier: Apache-2.0
"""Bootstrap tokens: Secrets of kube-system by which new nodes and the cluster authenticate each other."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Secret
from kubeloop.api.scalars.times import parse_time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.informer.informer import Informer

NAMESPACE: Final = "kube-system"
TYPE: Final = "bootstrap.kubernetes.io/token"
_NAME = re.compile("bootstrap-token-([a-z0-9]{6})")


class Token(NamedTuple):
    """ID and secret of a bootstrap token."""

    identifier: str
    secret: str


def bootstrap_secrets(context: ControllerContext) -> Informer:
    """Return the informer for Secrets that are bootstrap tokens."""
    return context.informers.for_resource(resource_of_class(Secret), namespace=NAMESPACE, fields=f"type={TYPE}")


def seconds_left(secret: Secret, now: datetime) -> float | None:
    """Return the seconds until the token expires: None if it never does, 0 if the time is unreadable."""
    told = secret.data.get("expiration", b"")
    if not told:
        return None
    try:
        return max((parse_time(told.decode()) - now).total_seconds(), 0.0)
    except ValueError:
        return 0.0


def signing_token(secret: Secret, now: datetime) -> Token | None:
    """Return the token of a Secret if it may sign at this time, else None."""
    named = _NAME.fullmatch(secret.metadata.name)
    identifier, password = _text(secret, "token-id"), _text(secret, "token-secret")
    if named is None or named[1] != identifier or not password:
        return None
    if seconds_left(secret, now) == 0.0 or _text(secret, "usage-bootstrap-signing") != "true":
        return None
    return Token(identifier, password)


def _text(secret: Secret, key: str) -> str:
    return secret.data.get(key, b"").decode(errors="replace")
