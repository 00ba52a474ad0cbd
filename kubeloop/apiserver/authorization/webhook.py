# SPDX-License-Identifier: Apache-2.0
"""Webhook authorizer: posts a SubjectAccessReview to another server, and caches its answer.

attributes ─▶ spec ─▶ match conditions ─▶ cache ─▶ webhook (awaited) ─▶ allowed, denied, or no opinion
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kubeloop.api.selectors.operators import Operator, SelectorError
from kubeloop.api.selectors.parser import parse_label_selector
from kubeloop.apiserver.authorization.attributes import (
    NO_OPINION,
    AuthorizationAttributes,
    AuthorizationDecision,
    EventualDecision,
)
from kubeloop.apiserver.webhook_client.expiring_cache import ExpiringCache
from kubeloop.apiserver.webhook_client.review_client import REQUEST_SECONDS, ReviewClient, WebhookFailure
from kubeloop.clock import Clock

if TYPE_CHECKING:
    from kubeloop.api.field_selectors import FieldSelector

log = logging.getLogger(__name__)

VERSIONS: Final = ("v1", "v1beta1")
_MAX_CACHED: Final = 8192
# Attributes that a client chooses must not fill the memory.
_MAX_CACHED_LENGTH: Final = 10_000
_OPERATORS: Final = {
    Operator.EQUALS: "In",
    Operator.DOUBLE_EQUALS: "In",
    Operator.IN: "In",
    Operator.NOT_EQUALS: "NotIn",
    Operator.NOT_IN: "NotIn",
    Operator.EXISTS: "Exists",
    Operator.DOES_NOT_EXIST: "DoesNotExist",
}

# Returns True if the webhook has to be asked about a spec; raises ValueError if that cannot be evaluated.
MatchConditions = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class WebhookAuthorizerConfig:
    """Configuration of a webhook authorizer; times in seconds, 0 for no cache."""

    kubeconfig: Path
    version: str = "v1beta1"
    authorized_ttl: float = 300.0
    unauthorized_ttl: float = 30.0
    timeout: float = REQUEST_SECONDS
    denies_on_failure: bool = False


class WebhookAuthorizer:
    """Authorizer of the mode Webhook."""

    def __init__(
        self,
        config: WebhookAuthorizerConfig,
        client: ReviewClient,
        clock: Clock,
        matches: MatchConditions | None = None,
    ) -> None:
        self._config = config
        self._client = client
        self._matches = matches
        self._cache: ExpiringCache[AuthorizationDecision] = ExpiringCache(clock, _MAX_CACHED)

    def decide(self, asked: AuthorizationAttributes) -> EventualDecision:
        """Return the cached decision about a request, or the webhook's, which has to be awaited."""
        spec = review_spec(asked)
        if self._matches is not None:
            try:
                if not self._matches(spec):
                    return NO_OPINION
            except ValueError as error:
                return self._failed(str(error))
        key = msgspec.json.encode(spec, order="deterministic")
        known = self._cache.get(key)
        return known if known is not None else self._ask(spec, key, _is_cacheable(asked))

    def close(self) -> None:
        """Close the connections to the webhook."""
        self._client.close()

    def _ask(self, spec: dict[str, Any], key: bytes, cacheable: bool) -> Awaitable[AuthorizationDecision]:
        async def ask() -> AuthorizationDecision:
            try:
                answer = await self._client.post(_review(spec, self._config.version))
                decision = _decision(answer.get("status"))
            except WebhookFailure as error:
                log.error("Failed to make webhook authorizer request: %s", error)
                return self._failed(str(error))
            if cacheable:
                allowed, config = decision.allowed and not decision.denied, self._config
                self._cache.put(key, decision, config.authorized_ttl if allowed else config.unauthorized_ttl)
            return decision

        return ask()

    def _failed(self, error: str) -> AuthorizationDecision:
        return AuthorizationDecision(False, denied=self._config.denies_on_failure, error=error)


def review_spec(asked: AuthorizationAttributes) -> dict[str, Any]:
    """Return the spec of the SubjectAccessReview v1 for a request, without empty fields."""
    user = asked.user
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "uid": user.uid,
        "extra": {key: list(values) for key, values in user.extra},
    }
    if asked.path is None:
        spec["resourceAttributes"] = _resource_attributes(asked)
    else:
        spec["nonResourceAttributes"] = _filled({"path": asked.path, "verb": asked.verb})
    return {key: value for key, value in spec.items() if value or key.endswith("Attributes")}


def _resource_attributes(asked: AuthorizationAttributes) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "namespace": asked.namespace,
        "verb": asked.verb,
        "group": asked.group,
        "version": asked.version,
        "resource": asked.resource,
        "subresource": asked.subresource,
        "name": asked.name,
    }
    for name, found in (("fieldSelector", _fields(asked.field_selector)), ("labelSelector", _labels(asked))):
        if found:
            attributes[name] = {"requirements": found}
    return _filled(attributes)


def _fields(selector: FieldSelector | None) -> list[dict[str, Any]]:
    terms = selector.requirements if selector is not None else ()
    return [{"key": one.field, "operator": _OPERATORS[one.operator], "values": [one.value]} for one in terms]


def _labels(asked: AuthorizationAttributes) -> list[dict[str, Any]]:
    """Return the requirements of the label selector; what cannot be expressed is left out, which asks for more."""
    try:
        selector = parse_label_selector(asked.label_selector) if asked.label_selector else None
    except SelectorError:
        return []
    terms = selector.requirements if selector is not None else ()
    return [
        _filled({"key": one.key, "operator": _OPERATORS[one.operator], "values": sorted(one.values)})
        for one in terms
        if one.operator in _OPERATORS
    ]


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value}


def _is_cacheable(asked: AuthorizationAttributes) -> bool:
    controlled = (
        asked.namespace,
        asked.verb,
        asked.group,
        asked.version,
        asked.resource,
        asked.subresource,
        asked.name,
        asked.path or "",
    )
    return sum(map(len, controlled)) < _MAX_CACHED_LENGTH


def _review(spec: Mapping[str, Any], version: str) -> dict[str, Any]:
    if version == "v1beta1":
        spec = {"group" if key == "groups" else key: value for key, value in spec.items()}
    return {
        "kind": "SubjectAccessReview",
        "apiVersion": f"authorization.k8s.io/{version}",
        "metadata": {},
        "spec": spec,
        "status": {"allowed": False},
    }


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


def _decision(status: Any) -> AuthorizationDecision:
    try:
        found = msgspec.convert(status or {}, _ReviewStatus)
    except msgspec.ValidationError as error:
        raise WebhookFailure(f"json: cannot unmarshal status: {error}") from None
    if found.allowed and found.denied:
        problem = "webhook subject access review returned both allow and deny response"
        return AuthorizationDecision(False, found.reason, denied=True, error=problem)
    return AuthorizationDecision(found.allowed, found.reason, found.denied)
