# SPDX-License-Identifier: Apache-2.0
"""Finds or creates a StatefulSet's current and update revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubeloop.api.generated.apps_v1 import ControllerRevision, StatefulSet
from kubeloop.api.generated.core_v1 import PodTemplateSpec
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.shared.ownership.controller_revisions import (
    HASH_LABEL,
    RevisionTemplateCache,
    RevisionWriter,
    new_metadata,
    next_number,
    revision_data,
    revision_hash,
    revision_name,
)
from kubeloop.runtime.objects.owner_references import controller_reference

_SETS = resource_of_class(StatefulSet)


@dataclass(frozen=True, slots=True)
class Rollout:
    """Current and update revision of a set; equal if there is nothing to update."""

    current: ControllerRevision
    update: ControllerRevision
    current_template: PodTemplateSpec
    update_template: PodTemplateSpec
    collision_count: int


class StatefulSetHistory:
    """Finds or creates the revisions of sets."""

    def __init__(self, revisions: RevisionWriter) -> None:
        self._revisions = revisions
        self._templates = RevisionTemplateCache()

    async def rollout_of(self, set: StatefulSet, ordered: Sequence[ControllerRevision]) -> Rollout | None:
        """Return the set's rollout, given all its revisions in order; its template's revision becomes the newest.

        Returns None for a set that is being deleted together with this revision, whose recreation would delay that.
        """
        found = await self._update_of(set, ordered)
        if found is None:
            return None
        update, collisions = found
        current = next((one for one in ordered if one.metadata.name == set.status.current_revision), update)
        template = set.spec.template
        before = template if current is update else self._templates.of(current)
        return Rollout(current, update, before, template, collisions)

    async def _update_of(
        self, set: StatefulSet, ordered: Sequence[ControllerRevision]
    ) -> tuple[ControllerRevision, int] | None:
        collisions = set.status.collision_count or 0
        data = revision_data(set.spec.template)
        equal = [one for one in ordered if self._templates.is_equal(one, data)]
        if equal and equal[-1] is ordered[-1]:
            return equal[-1], collisions
        if set.metadata.deletion_timestamp is not None:
            return (equal[-1], collisions) if equal else None
        if equal:  # rolled back
            return await self._revisions.renumber(equal[-1], next_number(ordered)), collisions
        return await self._create(set, data, next_number(ordered), collisions)

    async def _create(
        self, set: StatefulSet, data: bytes, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        """Create a revision under the first name that is not taken by another template."""
        label = revision_hash(data, collisions)
        while True:
            wanted = ControllerRevision(
                metadata=new_metadata(
                    set,
                    controller_reference(set, _SETS),
                    revision_name(set.metadata.name, revision_hash(data, collisions)),
                    {HASH_LABEL: label},
                ),
                data=msgspec.Raw(data),
                revision=number,
            )
            if (made := await self._revisions.create(wanted)) is not None:
                return made, collisions
            collisions += 1
