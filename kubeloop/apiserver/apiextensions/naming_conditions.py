# SPDX-License-Identifier: Apache-2.0
"""Naming conditions of CRDs: accepted names, conflicts and conditions. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kubeloop.api.generated.apiextensions_v1 import (
    CustomResourceDefinition,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
)
from kubeloop.api.meta.field_path import aggregate
from kubeloop.api.scalars.wire import Time

Condition = CustomResourceDefinitionCondition
Names = CustomResourceDefinitionNames

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_PENDING: Final = (
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
_ACCEPTED: Final = ("NoConflicts", "no conflicts found")
_ESTABLISHED: Final = ("InitialNamesAccepted", "the initial names have been accepted")
_NOT_ACCEPTED: Final = ("NotAccepted", "not all names are accepted")


@dataclass(slots=True)
class NamesInUse:
    """Names that other CRDs of the group already have."""

    resources: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, accepted: Iterable[Names]) -> NamesInUse:
        """Collect the names of other CRDs."""
        taken = cls()
        for names in accepted:
            taken.resources |= {names.plural, names.singular, *names.short_names} - {""}
            taken.kinds |= {names.kind, names.list_kind} - {""}
        return taken


def status_with_names(
    definition: CustomResourceDefinition, taken: NamesInUse, now: Time
) -> CustomResourceDefinitionStatus:
    """Return the CRD's status with accepted names and conditions; the same status if nothing changes."""
    status = definition.status
    names, (reason, message) = _names_of(definition.spec.names, status.accepted_names, taken)
    accepted = reason == _ACCEPTED[0]
    conditions = with_condition(status.conditions or (), "NamesAccepted", accepted, reason, message, now)
    if not is_established(status):
        reason, message = _ESTABLISHED if accepted else _NOT_ACCEPTED
        conditions = with_condition(conditions, "Established", accepted, reason, message, now)
    return replace(status, accepted_names=names, conditions=conditions)


def _names_of(wanted: Names, had: Names, taken: NamesInUse) -> tuple[Names, tuple[str, str]]:
    """Return the accepted names, and reason and message of the last conflict."""
    outcome = _ACCEPTED
    granted = replace(had, categories=wanted.categories)
    for attribute, reason, used in (
        ("plural", "PluralConflict", taken.resources),
        ("singular", "SingularConflict", taken.resources),
        ("short_names", "ShortNamesConflict", taken.resources),
        ("kind", "KindConflict", taken.kinds),
        ("list_kind", "ListKindConflict", taken.kinds),
    ):
        asked, has = getattr(wanted, attribute), getattr(had, attribute)
        conflicts = _conflicts(asked, has, used)
        if conflicts:
            outcome = (reason, aggregate(f'"{name}" is already in use' for name in conflicts))
        else:
            granted = replace(granted, **{attribute: asked})
    return granted, outcome


def _conflicts(asked: str | tuple[str, ...], has: str | tuple[str, ...], used: set[str]) -> list[str]:
    if isinstance(asked, str):
        return [asked] if asked != has and asked in used else []
    return [name for name in asked if name not in has and name in used]


def is_established(status: CustomResourceDefinitionStatus) -> bool:
    """Return True if the Established condition is True."""
    return any(one.type == "Established" and one.status == "True" for one in status.conditions or ())


def mark_terminating(definition: CustomResourceDefinition, now: Time) -> CustomResourceDefinition:
    """Return a CRD marked as deleted, with cleanup finalizer and Terminating condition."""
    meta = definition.metadata
    finalizers = meta.finalizers if CLEANUP_FINALIZER in meta.finalizers else (*meta.finalizers, CLEANUP_FINALIZER)
    conditions = with_condition(definition.status.conditions or (), "Terminating", True, *_PENDING, now)
    return replace(
        definition,
        metadata=replace(meta, deletion_timestamp=now, finalizers=finalizers),
        status=replace(definition.status, conditions=conditions),
    )


def with_condition(
    conditions: Iterable[Condition], type: str, value: bool, reason: str, message: str, now: Time
) -> tuple[Condition, ...]:
    """Return the conditions with one set; its transition time changes with its status only."""
    status = "True" if value else "False"
    updated: list[Condition] = []
    found = False
    for one in conditions:
        if one.type == type:
            found = True
            since = one.last_transition_time if one.status == status else now
            one = replace(one, status=status, reason=reason, message=message, last_transition_time=since)
        updated.append(one)
    if not found:
        updated.append(Condition(type=type, status=status, reason=reason, message=message, last_transition_time=now))
    return tuple(updated)
