# SPDX-License-Identifier: Apache-2.0
"""Finds or creates a DaemonSet's revisions: the one of its current template, and older ones for a rollback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from kubeloop.api.generated.apps_v1 import ControllerRevision, DaemonSet
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.shared.ownership.controller_revisions import (
    POD_REVISION_LABEL,
    RevisionTemplateCache,
    RevisionWriter,
    new_metadata,
    next_number,
    revision_data,
    sort_revisions,
)
from kubeloop.controllers.shared.ownership.template_hash import template_hash
from kubeloop.runtime.objects.owner_references import controller_reference

_SETS = resource_of_class(DaemonSet)


class HashCollision(Exception):
    """Raised if the name of the template's revision is taken by another template."""


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """All revisions of a set."""

    current: ControllerRevision
    older: Sequence[ControllerRevision]  # in ascending order

    @property
    def hash(self) -> str:
        """Hash label of the current revision."""
        return hash_of_revision(self.current)


class DaemonSetHistory:
    """Finds or creates the revisions of sets."""

    def __init__(self, client: Client, revisions: RevisionWriter) -> None:
        self._client = client
        self._revisions = revisions
        self._templates = RevisionTemplateCache()

    async def construct_history(
        self, daemon_set: DaemonSet, revisions: Iterable[ControllerRevision], pods: Sequence[Pod]
    ) -> RevisionHistory:
        """Return the set's revisions, given all that it owns; its template's revision becomes the newest.

        Raises `HashCollision` if that revision cannot be created under its name.
        """
        data = revision_data(daemon_set.spec.template)
        labelled = [await self._labelled(one) for one in sort_revisions(revisions)]
        equal = [one for one in labelled if self._templates.is_equal(one, data)]
        older = [one for one in labelled if one not in equal]
        number = next_number(older)
        if not equal:
            return RevisionHistory(await self._create(daemon_set, data, number), older)
        current = equal[-1]
        await self._dedup_revisions(equal[:-1], current, pods)
        if current.revision < number:
            current = await self._revisions.renumber(current, number)
        return RevisionHistory(current, older)

    async def cleanup_history(self, daemon_set: DaemonSet, past: RevisionHistory, pods: Iterable[Pod]) -> None:
        """Delete the oldest revisions above the limit, except those that a pod has."""
        for revision in revisions_to_clean_up(past.older, pods, daemon_set.spec.revision_history_limit):
            await self._revisions.delete(revision)

    async def _labelled(self, revision: ControllerRevision) -> ControllerRevision:
        """Ensure that a revision has a hash label; without one, its name is used."""
        if POD_REVISION_LABEL in revision.metadata.labels:
            return revision
        return await self._revisions.label(revision, POD_REVISION_LABEL, revision.metadata.name)

    async def _create(self, daemon_set: DaemonSet, data: bytes, number: int) -> ControllerRevision:
        hash = template_hash(daemon_set.spec.template, daemon_set.status.collision_count)
        reference, name = controller_reference(daemon_set, _SETS), f"{daemon_set.metadata.name}-{hash}"
        wanted = ControllerRevision(
            metadata=new_metadata(daemon_set, reference, name, {POD_REVISION_LABEL: hash}),
            data=msgspec.Raw(data),
            revision=number,
        )
        made = await self._revisions.create(wanted)
        if made is None:
            raise HashCollision(name)
        return made

    async def _dedup_revisions(
        self, doubles: Sequence[ControllerRevision], kept: ControllerRevision, pods: Sequence[Pod]
    ) -> None:
        """Keep one revision per template: relabel pods of the duplicates and delete these."""
        if not doubles:
            return
        patch = {"metadata": {"labels": {POD_REVISION_LABEL: hash_of_revision(kept)}}}
        for pod in pods:
            if pod.metadata.labels.get(POD_REVISION_LABEL) in {hash_of_revision(one) for one in doubles}:
                await self._client.patch(Pod, pod.metadata.name, patch, pod.metadata.namespace, type=MERGE_PATCH)
        for revision in doubles:
            await self._revisions.delete(revision)


def hash_of_revision(revision: ControllerRevision) -> str:
    """Return the hash label of a revision."""
    return revision.metadata.labels.get(POD_REVISION_LABEL, "")


def revisions_to_clean_up(
    older: Sequence[ControllerRevision], pods: Iterable[Pod], limit: int | None
) -> list[ControllerRevision]:
    """Return the oldest unused revisions, as many as exceed the limit."""
    surplus = 0 if limit is None else len(older) - limit
    if surplus <= 0:
        return []
    live = {pod.metadata.labels.get(POD_REVISION_LABEL, "") for pod in pods}
    return [one for one in older if hash_of_revision(one) not in live][:surplus]
