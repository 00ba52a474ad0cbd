"""Finds the kinds that a policy's rules name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kubeloop.api.expressions.admission_types import PolicyGVK
from kubeloop.api.generated.admissionregistration_v1 import NamedRuleWithOperations, ValidatingAdmissionPolicySpec
from kubeloop.client import Client
from kubeloop.client.discovery.served_resources import ServedResources, discover_resources
from kubeloop.clock import Clock

MAX_TYPES_TO_CHECK: Final = 10  # per rule
_FRESH_SECONDS: Final = 30.0

GroupVersionResource = tuple[str, str, str]  # group, version, resource


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
        for one in served.all()
        if group in ("", one.group) and one.version == version and resource.lower() in (one.plural, one.singular)
    ]
