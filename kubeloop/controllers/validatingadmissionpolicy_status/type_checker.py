# SPDX-License-Identifier: Apache-2.0
"""Type-checks the expressions of a policy against the kinds that it matches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from kubeloop.api.errors import ApiError
from kubeloop.api.expressions.admission_types import MatchedKind, PolicyGVK, type_check_policy
from kubeloop.api.generated.admissionregistration_v1 import (
    ExpressionWarning,
    NamedRuleWithOperations,
    ParamKind,
    ValidatingAdmissionPolicySpec,
)
from kubeloop.api.structural.cel.declarations import Declarations
from kubeloop.api.structural.schema_checks.openapi_refs import schema_of_kind
from kubeloop.client import Client
from kubeloop.client.discovery.served_resources import ServedResources, discover_resources
from kubeloop.client.errors import ClientError
from kubeloop.clock import Clock

_OF_OBJECTS, _OF_PARAMS = 0, 1  # numbers in type names, so that a kind in both roles is two types
_PUBLISHED: Final = "/openapi/v3"
_REMEMBERED: Final = 32

logger = logging.getLogger(__name__)
MAX_TYPES_TO_CHECK: Final = 10  # per rule
_FRESH_SECONDS: Final = 30.0

GroupVersionResource = tuple[str, str, str]  # group, version, resource


class PolicyTypeChecker:
    """Type checker with the kinds and schemas that the server publishes."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._kinds = ServedKinds(client, clock)
        self._schemas = PublishedSchemas(client)

    async def check(self, spec: ValidatingAdmissionPolicySpec) -> tuple[ExpressionWarning, ...]:
        """Return the warnings about a policy."""
        kinds = await self._kinds.of(spec)
        known = [(kind, await self._schemas.of(kind, _OF_OBJECTS)) for kind in kinds]
        subjects = [MatchedKind(kind, declared) for kind, declared in known if declared is not None]
        params = await self._schemas.of(kind_of_params(spec.param_kind), _OF_PARAMS) if spec.param_kind else None
        return type_check_policy(spec, subjects, params)


def kind_of_params(params: ParamKind) -> PolicyGVK:
    """Return the kind of a policy's parameters."""
    group, _, version = params.api_version.rpartition("/")
    return PolicyGVK(group, version, params.kind)


class PublishedSchemas:
    """Cache of schemas as type declarations; the large documents themselves are not kept."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._declared: dict[tuple[str, str], Declarations | None] = {}  # by the document's URL and the type's name

    async def of(self, kind: PolicyGVK, number: int) -> Declarations | None:
        """Return the declarations of a kind, or None without a schema; another number makes another type."""
        try:
            return await self._find(kind, f"{kind.kind}{number}")
        except (ApiError, ClientError, OSError, TimeoutError) as error:
            logger.info("failed to load the schema of %s: %s", kind, error)
            return None

    async def _find(self, kind: PolicyGVK, name: str) -> Declarations | None:
        paths: dict[str, Any] = (await self._client.document(_PUBLISHED)).get("paths") or {}
        version = f"{kind.group}/{kind.version}" if kind.group else kind.version
        described = paths.get(f"apis/{version}" if kind.group else f"api/{version}")
        if described is None:
            return None
        place = str(described["serverRelativeURL"])  # contains a hash of the document
        if (place, name) not in self._declared:
            document = await self._client.document(place.partition("?")[0])
            schema = schema_of_kind(document, kind.group, kind.version, kind.kind)
            self._remember((place, name), None if schema is None else Declarations(schema, name))
        return self._declared[place, name]

    def _remember(self, key: tuple[str, str], declared: Declarations | None) -> None:
        while len(self._declared) >= _REMEMBERED:
            del self._declared[next(iter(self._declared))]
        self._declared[key] = declared


class ServedKinds:
    """Kinds that the server has, by resource; discovered again after some time or if one is missing."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._served: ServedResources | None = None
        self._asked = 0.0

    async def of(self, spec: ValidatingAdmissionPolicySpec) -> list[PolicyGVK]:
        """Return the kinds that a policy matches, sorted."""
        places = [list(resources_of_rule(rule)) for rule in _rules(spec)]
        served, is_fresh = await self._known()
        if not is_fresh and not all(_found(served, each) for rule in places for each in rule):
            served = await self._ask()
        return sorted({kind for rule in places for kind in first_kinds(rule, served)})

    async def _known(self) -> tuple[ServedResources, bool]:
        """Return the known kinds, and True if they were just discovered."""
        if self._served is None or self._clock.monotonic() - self._asked > _FRESH_SECONDS:
            return await self._ask(), True
        return self._served, False

    async def _ask(self) -> ServedResources:
        asked = self._clock.monotonic()
        self._served, self._asked = await discover_resources(self._client.document), asked
        return self._served


def _rules(spec: ValidatingAdmissionPolicySpec) -> Sequence[NamedRuleWithOperations]:
    return spec.match_constraints.resource_rules if spec.match_constraints is not None else ()


def resources_of_rule(rule: NamedRuleWithOperations) -> Iterator[GroupVersionResource]:
    """Return the resources that a rule names; none if it matches any group or version."""
    if any("*" in one for one in (*rule.api_groups, *rule.api_versions)):
        return
    resources = sorted(one for one in rule.resources if "*" not in one and "/" not in one)
    for group in sorted(rule.api_groups):
        for version in sorted(rule.api_versions):
            for resource in resources:
                yield group, version, resource


def first_kinds(places: Iterable[GroupVersionResource], served: ServedResources) -> list[PolicyGVK]:
    """Return the kinds of the first resources, up to the limit."""
    found: list[PolicyGVK] = []
    for place in places:
        found += _found(served, place)
    return found[:MAX_TYPES_TO_CHECK]


def _found(served: ServedResources, place: GroupVersionResource) -> list[PolicyGVK]:
    """Return the kinds of a resource; without a group, those of all groups that have it in the version."""
    group, version, resource = place
    return [
        PolicyGVK(one.group, one.version, one.kind)
        for one in served.all_resources()
        if group in ("", one.group) and one.version == version and resource.lower() in (one.plural, one.singular)
    ]
