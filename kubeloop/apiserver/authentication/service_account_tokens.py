# SPDX-License-Identifier: Apache-2.0
"""Service account tokens: issues them for TokenRequests, and authenticates them.

issue(account, bound objects, audiences, seconds) ─▶ token
recognize(token, audiences) ─▶ signature ─ time ─ audience ─ account and bound objects exist? ─▶ user
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.times import parse_time
from kubeloop.api.signed_tokens import InvalidToken, PublicKey, SigningKey, read_public_keys, verify
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.authentication.legacy_service_account_tokens import (
    INVALIDATED_SECRET,
    LegacyClaims,
    invalid_reason,
    is_auto_generated,
)
from kubeloop.apiserver.authentication.legacy_service_account_tokens import ISSUER as LEGACY_ISSUER
from kubeloop.apiserver.authentication.remote_tokens import TokenReviewResult
from kubeloop.apiserver.metrics.tokens import ServiceAccountTokenMetrics
from kubeloop.apiserver.request.context import AUTHENTICATED, CREDENTIAL_ID, User
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry

# Allowed clock skew.
_LEEWAY = timedelta(minutes=1)
_INVALIDATED = "service account token has been invalidated"
_MAX_CACHED = 4096


class ClaimReference(msgspec.Struct, frozen=True):
    """Object that a token refers to, by name and UID."""

    name: str = ""
    uid: str = ""


class KubernetesClaim(msgspec.Struct, frozen=True, rename={"account": "serviceaccount", "warn_after": "warnafter"}):
    """Objects that a token is bound to: the `kubernetes.io` claim."""

    namespace: str
    account: ClaimReference
    pod: ClaimReference | None = None
    secret: ClaimReference | None = None
    node: ClaimReference | None = None
    warn_after: int | None = None


class TokenClaims(msgspec.Struct, frozen=True):
    """Claims of a token that are read."""

    iss: str
    sub: str
    aud: tuple[str, ...]
    exp: int
    nbf: int
    iat: int
    binding: KubernetesClaim = msgspec.field(name="kubernetes.io")
    jti: str = ""


class InvalidTokenError(Exception):
    """Error for a token of ours that is invalid, or no longer valid."""


class TokenKeys(NamedTuple):
    """Signing key, and all accepted public keys."""

    signing: SigningKey
    public: tuple[PublicKey, ...]


def token_keys(pem: bytes, further: Iterable[bytes] = ()) -> TokenKeys:
    """Return the keys from the private key and from files of further public keys."""
    signing = SigningKey(pem)
    public = {key.key_id: key for pem in further for key in read_public_keys(pem)}
    return TokenKeys(signing, tuple({signing.public.key_id: signing.public, **public}.values()))


class ServiceAccountTokens:
    """Issues tokens with one key and issuer, and accepts those of further keys and issuers."""

    def __init__(
        self,
        keys: TokenKeys,
        issuers: Sequence[str],
        audiences: Sequence[str],
        objects: Lookup,
        clock: Clock,
        metrics: ServiceAccountTokenMetrics | None = None,
    ) -> None:
        self._metrics = metrics or ServiceAccountTokenMetrics(MetricRegistry())
        self.issuer = issuers[0]
        self._issuers = frozenset(issuers)
        # Audience of a token that names none: this API server.
        self.audiences = tuple(audiences)
        self.public_keys = keys.public
        self._key = keys.signing
        self._objects = objects
        self._clock = clock
        self._verified: OrderedDict[str, TokenClaims | LegacyClaims] = OrderedDict()

    def issue(self, binding: KubernetesClaim, audiences: Sequence[str], seconds: int, jti: str) -> str:
        """Return a new signed token with an ID of its own, which expires after this many seconds."""
        now = int(self._clock.now().timestamp())
        said = {name: value for name, value in msgspec.to_builtins(binding).items() if value is not None}
        return self._key.sign(
            {
                "aud": list(audiences),
                "exp": now + seconds,
                "iat": now,
                "iss": self.issuer,
                "jti": jti,
                "kubernetes.io": said,
                "nbf": now,
                "sub": make_username(binding.namespace, binding.account.name),
            }
        )

    def authenticate(self, token: str) -> User | None:
        """Return the user of a token for this API server; None if it is invalid."""
        try:
            return self.validate(token, self.audiences).user
        except (InvalidToken, InvalidTokenError):
            return None

    def validate(self, token: str, audiences: Sequence[str]) -> TokenReviewResult:
        """Validate a token; raises NotOurToken, or TokenRejected for an invalid one of ours."""
        claims = self._claims(token)
        if isinstance(claims, LegacyClaims):
            return self._validate_legacy(claims, token, audiences)
        _check_times(claims, self._clock.now())
        shared = tuple(audience for audience in claims.aud if audience in audiences)
        if not shared:
            raise InvalidTokenError(
                f"token audiences {_listed(claims.aud)} is invalid for the target audiences {_listed(audiences)}"
            )
        self._check_objects(claims.binding)
        self._metrics.valid.value += 1
        if claims.binding.warn_after is not None and self._clock.now().timestamp() > claims.binding.warn_after:
            self._metrics.stale.value += 1
        return TokenReviewResult(_user(claims), shared)

    def _validate_legacy(self, claims: LegacyClaims, token: str, audiences: Sequence[str]) -> TokenReviewResult:
        """Validate a legacy token, which has no audience and is for this server alone."""
        shared = tuple(audience for audience in self.audiences if audience in audiences)
        problem = invalid_reason(claims, token, self._objects)
        if problem.endswith(INVALIDATED_SECRET):
            self._metrics.invalid_legacy_auto.value += 1
        if problem or not shared:
            raise InvalidTokenError(problem or f"token is not for the target audiences {_listed(audiences)}")
        self._metrics.legacy.value += 1
        is_auto = is_auto_generated(claims, self._objects)
        (self._metrics.legacy_auto if is_auto else self._metrics.legacy_manual).value += 1
        groups = _groups_of(claims.namespace)
        return TokenReviewResult(User(make_username(claims.namespace, claims.account), groups, claims.uid), shared)

    def _claims(self, token: str) -> TokenClaims | LegacyClaims:
        """Return the verified claims, cached; the objects they refer to are checked each time."""
        known = self._verified.get(token)
        if known is None:
            plain = verify(token, self.public_keys)
            issuer = plain.get("iss")
            try:
                if issuer in self._issuers:
                    known = msgspec.convert(plain, TokenClaims)
                elif issuer == LEGACY_ISSUER:
                    known = msgspec.convert(plain, LegacyClaims)
                else:
                    raise InvalidToken
            except msgspec.ValidationError:
                raise InvalidToken from None
            self._verified[token] = known
            if len(self._verified) > _MAX_CACHED:
                self._verified.popitem(last=False)
        else:
            self._verified.move_to_end(token)
        return known

    def _check_objects(self, binding: KubernetesClaim) -> None:
        namespace, account = binding.namespace, binding.account
        found = self._objects.get_object("serviceaccounts", namespace, account.name)
        if found is None:
            raise InvalidTokenError(f"serviceaccounts {quote(account.name)} not found")
        if found.metadata.uid != account.uid:
            raise InvalidTokenError(f"service account UID ({found.metadata.uid}) does not match claim ({account.uid})")
        if self._is_deleted(found):
            raise InvalidTokenError(f"service account {namespace}/{account.name} has been deleted")
        self._check_bound("secret", namespace, binding.secret)
        self._check_bound("pod", namespace, binding.pod)
        # A pod's token also names its node; only the pod decides how long it is valid.
        if binding.pod is None:
            self._check_bound("node", "", binding.node)

    def _check_bound(self, kind: str, namespace: str, bound: ClaimReference | None) -> None:
        if bound is None:
            return
        found = self._objects.get_object(f"{kind}s", namespace, bound.name)
        if found is None:
            raise InvalidTokenError(_INVALIDATED)
        if found.metadata.uid != bound.uid:
            raise InvalidTokenError(
                f"{kind} UID ({found.metadata.uid}) does not match service account {kind} ref claim ({bound.uid})"
            )
        if self._is_deleted(found):
            raise InvalidTokenError(_INVALIDATED)

    def _is_deleted(self, found: Any) -> bool:
        """Return True if an object's deletion time has passed; until then its tokens stay valid."""
        ends = found.metadata.deletion_timestamp
        return ends is not None and parse_time(ends) < self._clock.now() - _LEEWAY


def make_username(namespace: str, account: str) -> str:
    """Return the user name of a service account."""
    return f"system:serviceaccount:{namespace}:{account}"


def _check_times(claims: TokenClaims, now: datetime) -> None:
    if (now - _LEEWAY).timestamp() > claims.exp:
        raise InvalidTokenError("service account token has expired")
    latest = (now + _LEEWAY).timestamp()
    if latest < claims.nbf:
        raise InvalidTokenError("service account token is not valid yet")
    if latest < claims.iat:
        raise InvalidTokenError("service account token is issued in the future")


def _user(claims: TokenClaims) -> User:
    binding = claims.binding
    extra: list[tuple[str, tuple[str, ...]]] = []
    if claims.jti:
        extra.append((CREDENTIAL_ID, (f"JTI={claims.jti}",)))
    for kind, told in (("node", binding.node), ("pod", binding.pod)):
        if told is not None:
            extra.append((f"authentication.kubernetes.io/{kind}-name", (told.name,)))
            # A pod may be assigned to a node that doesn't exist; such a node has no UID.
            if told.uid:
                extra.append((f"authentication.kubernetes.io/{kind}-uid", (told.uid,)))
    name = make_username(binding.namespace, binding.account.name)
    return User(name, _groups_of(binding.namespace), binding.account.uid, tuple(extra))


def _groups_of(namespace: str) -> tuple[str, ...]:
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)


def _listed(values: Sequence[str]) -> str:
    return "[" + " ".join(quote(value) for value in values) + "]"
