"""Finds the kinds that a policy's rules name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kubeloop.api.expressions.admission_types import Kind
from kubeloop.api.generated.admissionregistration_v1 import NamedRuleWithOperations, ValidatingAdmissionPolicySpec
from kubeloop.client import Client
from kubeloop.client.discovery.served_resources import Served, discover
from kubeloop.clock import Clock

MOST_KINDS: Final = 10  # per rule
_FRESH_SECONDS: Final = 30.0

Place = tuple[str, str, str]  # group, version, resource


class ServedKinds:
    """Kinds that the server has, by resource; discovered again after some time or if one is missing."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._served: Served | None = None
        self._asked = 0.0

    async def of(self, spec: ValidatingAdmissionPolicySpec) -> list[Kind]:
        """Return the kinds that a policy matches, sorted."""
        places = [list(places_of(rule)) for rule in _rules(spec)]
        served, is_fresh = await self._known()
        if not is_fresh and not all(_found(served, each) for rule in places for each in rule):
            served = await self._ask()
        return sorted({kind for rule in places for kind in first_kinds(rule, served)})

    async def _known(self) -> tuple[Served, bool]:
        """Return the known kinds, and True if they were just discovered."""
        if self._served is None or self._clock.monotonic() - self._asked > _FRESH_SECONDS:
            return await self._ask(), True
        return self._served, False

    async def _ask(self) -> Served:
        asked = self._clock.monotonic()
        self._served, self._asked = await discover(self._client.document), asked
        return self._served


def _rules(spec: ValidatingAdmissionPolicySpec) -> Sequence[NamedRuleWithOperations]:
    return spec.match_constraints.resource_rules if spec.match_constraints is not None else ()


def places_of(rule: NamedRuleWithOperations) -> Iterator[Place]:
    """Return the resources that a rule names; none if it matches any group or version."""
    if any("*" in one for one in (*rule.api_groups, *rule.api_versions)):
        return
    resources = sorted(one for one in rule.resources if "*" not in one and "/" not in one)
    for group in sorted(rule.api_groups):
        for version in sorted(rule.api_versions):
            for resource in resources:
                yield group, version, resource


def first_kinds(places: Iterable[Place], served: Served) -> list[Kind]:
    """Return the kinds of the first resources, up to the limit."""
    found: list[Kind] = []
    for place in places:
        found += _found(served, place)
    return found[:MOST_KINDS]


def _found(served: Served, place: Place) -> list[Kind]:
    """Return the kinds of a resource; without a group, those of all groups that have it in the version."""
    group, version, resource = place
    return [
        Kind(one.group, one.version, one.kind)
        for one in served.all()
        if group in ("", one.group) and one.version == version and resource.lower() in (one.plural, one.singular)
    ]
