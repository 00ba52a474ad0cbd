# SPDX-License-Identifier: Apache-2.0
"""Builds the conditions of a namespace's deletion: one for each possible obstacle. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubeloop.api.generated.core_v1 import NamespaceCondition
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.conditions import find_condition, set_condition
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.served_resources import ServedResources

DISCOVERY = "NamespaceDeletionDiscoveryFailure"
PARSING = "NamespaceDeletionGroupVersionParsingFailure"
DELETION = "NamespaceDeletionContentFailure"
CONTENT = "NamespaceContentRemaining"
FINALIZERS = "NamespaceFinalizersRemaining"

# Reason and message of each condition without an obstacle, in reporting order.
_WELL: Mapping[str, tuple[str, str]] = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    DELETION: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    CONTENT: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class DeletionFindings:
    """Results of one attempt to empty a namespace."""

    discovery: str = ""  # errors of the discovery
    parsing: str = ""  # invalid group versions
    failures: list[Exception] = field(default_factory=list)
    remaining: Counter[str] = field(default_factory=Counter)  # objects by qualified resource
    finalizers: Counter[str] = field(default_factory=Counter)  # objects by finalizer
    seconds: int = 0  # expected duration of the remaining content

    @property
    def errors(self) -> list[Exception]:
        """Errors that require another attempt."""
        told = [RuntimeError(text) for text in (self.discovery, self.parsing) if text]
        return [*told, *self.failures]


def discovery_failure(served: ServedResources) -> str:
    """Return the message of a failed discovery, or an empty string."""
    if not served.failures:
        return ""
    return f"Discovery failed for some groups, {len(served.failures)} failing: {served.error_text()}"


def parsing_failure(served: ServedResources) -> str:
    """Return the message for the first invalid group version, or an empty string."""
    odd = [version for group in served.groups for version in group if version.count("/") > 1]
    return f"unexpected GroupVersion string: {odd[0]}" if odd else ""


def resource_name(resource: Resource) -> str:
    """Return the resource as in messages; the core group leaves a trailing dot."""
    return f"{resource.plural}.{resource.group}"


def conditions_after(
    before: tuple[NamespaceCondition, ...], findings: DeletionFindings, now: Time
) -> tuple[NamespaceCondition, ...]:
    """Return the new conditions; the same tuple if nothing has changed."""
    troubles = _troubles(findings)
    after = before
    for kind, (reason, message) in _WELL.items():
        if kind in troubles:
            told = NamespaceCondition(type=kind, status="True", reason=troubles[kind][0], message=troubles[kind][1])
        else:
            told = NamespaceCondition(type=kind, status="False", reason=reason, message=message)
        after = set_condition(after, told, now)
    return after


def changed_conditions(
    before: Iterable[NamespaceCondition], after: Iterable[NamespaceCondition]
) -> list[NamespaceCondition]:
    """Return the conditions that differ."""
    before = tuple(before)
    return [one for one in after if find_condition(before, one.type) != one]


def _troubles(findings: DeletionFindings) -> dict[str, tuple[str, str]]:
    """Return reason and message of each condition that is true."""
    troubles: dict[str, tuple[str, str]] = {}
    if findings.discovery:
        troubles[DISCOVERY] = ("DiscoveryFailed", findings.discovery)
    if findings.parsing:
        troubles[PARSING] = ("GroupVersionParsingFailed", findings.parsing)
    if findings.failures:
        told = ", ".join(sorted(str(one) for one in findings.failures))
        count = len(findings.failures)
        troubles[DELETION] = (
            "ContentDeletionFailed", f"Failed to delete all resource types, {count} remaining: {told}",
        )  # fmt: skip
    if findings.remaining:
        told = ", ".join(sorted(f"{name} has {n} resource instances" for name, n in findings.remaining.items()))
        troubles[CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {told}")
    if findings.finalizers:
        told = ", ".join(sorted(f"{name} in {n} resource instances" for name, n in findings.finalizers.items()))
        troubles[FINALIZERS] = (
            "SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {told}",
        )  # fmt: skip
    return troubles
