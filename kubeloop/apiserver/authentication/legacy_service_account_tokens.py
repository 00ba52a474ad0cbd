# SPDX-License-Identifier: Apache-2.0
"""Legacy service account tokens in secrets: they don't expire, and are valid while secret and account exist."""

from __future__ import annotations

import hmac
from typing import Any

import msgspec

from kubeloop.apiserver.admission import Lookup

ISSUER = "kubernetes/serviceaccount"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
_INVALIDATED = "Token has been invalidated"
# End of the reason for a token whose secret is marked invalid.
INVALIDATED_SECRET = f"the '{_INVALID_SINCE}' label from the secret to temporarily allow use of this token"


class LegacyClaims(msgspec.Struct, frozen=True):
    """Claims of a legacy token."""

    sub: str
    namespace: str = msgspec.field(name="kubernetes.io/serviceaccount/namespace")
    account: str = msgspec.field(name="kubernetes.io/serviceaccount/service-account.name")
    uid: str = msgspec.field(name="kubernetes.io/serviceaccount/service-account.uid")
    secret: str = msgspec.field(name="kubernetes.io/serviceaccount/secret.name")


def invalid_reason(claims: LegacyClaims, token: str, objects: Lookup) -> str:
    """Return the reason why a correctly signed token is invalid; empty if it is valid."""
    namespace, account = claims.namespace, claims.account
    if claims.sub != f"system:serviceaccount:{namespace}:{account}":
        return "sub claim is invalid"
    secret: Any = objects.get_object("secrets", namespace, claims.secret)
    if secret is None or secret.metadata.deletion_timestamp is not None:
        return _INVALIDATED
    if not hmac.compare_digest(secret.data.get("token", b""), token.encode()):
        return "Token does not match server's copy"
    found: Any = objects.get_object("serviceaccounts", namespace, account)
    if found is None:
        return f'serviceaccounts "{account}" not found'
    if found.metadata.deletion_timestamp is not None:
        return f"ServiceAccount {namespace}/{account} has been deleted"
    if found.metadata.uid != claims.uid:
        return f"ServiceAccount UID ({found.metadata.uid}) does not match claim ({claims.uid})"
    if secret.metadata.labels.get(_INVALID_SINCE):
        return (
            f"the token in secret {namespace}/{claims.secret} for service account {namespace}/{account} has been "
            "marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove "
            f"{INVALIDATED_SECRET}"
        )
    return ""


def is_auto_generated(claims: LegacyClaims, objects: Lookup) -> bool:
    """Return True if the token's secret was created with its account, which then names it."""
    account: Any = objects.get_object("serviceaccounts", claims.namespace, claims.account)
    return account is not None and any(one.name == claims.secret for one in account.secrets)
