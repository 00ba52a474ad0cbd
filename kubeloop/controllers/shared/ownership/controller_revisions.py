# SPDX-License-Identifier: Apache-2.0
"""History of a workload's pod template: one ControllerRevision per distinct template, numbered in order.

A revision's data is a patch that restores its template, as `kubectl rollout undo` applies it. Two revisions are equal
if their templates are equal, even if the bytes differ: servers and managers of other versions write other bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.errors import AlreadyExists, NotFound
from kubeloop.api.generated.apps_v1 import ControllerRevision, DaemonSet, DaemonSetSpec
from kubeloop.api.generated.core_v1 import PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta, OwnerReference, Preconditions
from kubeloop.client import Client
from kubeloop.controllers.shared.ownership.template_hash import safe_text

HASH_LABEL: Final = "controller.kubernetes.io/hash"
POD_REVISION_LABEL: Final = "controller-revision-hash"
MAX_PREFIX_LENGTH: Final = 223  # so that a hash fits behind it in a name
CACHE_SIZE: Final = 4096  # number of revisions whose decoded data are cached

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_SORTED: Final = msgspec.json.Encoder(enc_hook=str, order="sorted")
_DIRECTIVE: Final = "$patch"
# Go's JSON encoder escapes these; hashes are computed over the escaped bytes.
_GO_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


class UnreadableRevision(ValueError):
    """Raised if a revision's data is not a patch of a pod template."""


# Content of revisions.


def revision_data(template: PodTemplateSpec) -> bytes:
    """Encode the patch that restores a template; equal templates give equal bytes."""
    body = _SORTED.encode(template)
    for plain, escaped in _GO_ESCAPES:
        body = body.replace(plain, escaped)
    rest = body[1:] if body == b"{}" else b"," + body[1:]
    return b'{"spec":{"template":{"$patch":"replace"' + rest + b"}}"


def revision_hash(data: bytes, collision_count: int | None = None) -> str:
    """Compute the hash of a patch; a collision count yields a different hash for the same patch."""
    probe = b"" if collision_count is None else str(collision_count).encode()
    value = _FNV_OFFSET
    for byte in data + probe:
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return safe_text(value)


def revision_name(owner: str, hash: str) -> str:
    """Build a revision's name from the owner's name and the hash."""
    return f"{owner[:MAX_PREFIX_LENGTH]}-{hash}"


def template_of_revision(revision: ControllerRevision) -> PodTemplateSpec:
    """Decode the template of a revision and apply current defaults; raises UnreadableRevision."""
    try:
        said = msgspec.json.decode(revision.data)["spec"]["template"]
        template = codec.from_plain({key: one for key, one in said.items() if key != _DIRECTIVE}, PodTemplateSpec)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRevision(f"{revision.metadata.name} contains no pod template: {error}") from error
    apply_defaults(DaemonSet(spec=DaemonSetSpec(template=template)))  # templates have the same defaults everywhere
    return template


class RevisionTemplateCache:
    """Cache of decoded revisions by their version."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, str], tuple[PodTemplateSpec, bytes]] = OrderedDict()

    def of(self, revision: ControllerRevision) -> PodTemplateSpec:
        """Return the template of a revision."""
        return self._remembered(revision)[0]

    def is_equal(self, revision: ControllerRevision, data: bytes) -> bool:
        """Return True if the revision is equivalent to this patch, which `revision_data` made."""
        if bytes(revision.data) == data:
            return True
        try:
            return self._remembered(revision)[1] == data
        except UnreadableRevision:
            return False

    def _remembered(self, revision: ControllerRevision) -> tuple[PodTemplateSpec, bytes]:
        key = (revision.metadata.uid, revision.metadata.resource_version)
        known = self._read.get(key)
        if known is None:
            template = template_of_revision(revision)
            known = self._read[key] = (template, revision_data(template))
            if len(self._read) > CACHE_SIZE:
                self._read.popitem(last=False)
        return known


# Order of revisions.


def sort_revisions(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """Sort revisions by number, then by age, then by name."""
    return sorted(
        revisions, key=lambda one: (one.revision, str(one.metadata.creation_timestamp or ""), one.metadata.name)
    )


def next_number(ordered: Sequence[ControllerRevision]) -> int:
    """Return the number of the next revision."""
    return ordered[-1].revision + 1 if ordered else 1


def revisions_to_truncate(
    ordered: Sequence[ControllerRevision], live: Iterable[str], limit: int | None
) -> Sequence[ControllerRevision]:
    """Return the oldest revisions above the history limit that no pod and no rollout uses."""
    if limit is None or limit < 0:
        return ()
    kept = frozenset(live)
    idle = [one for one in ordered if one.metadata.name not in kept]
    return idle[: max(0, len(idle) - limit)]


# Writing.


class RevisionWriter:
    """Writes ControllerRevisions; each patch requires the resourceVersion that was evaluated."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, wanted: ControllerRevision) -> ControllerRevision | None:
        """Create the revision or return the equal existing one; None if the name is taken by another template."""
        try:
            made: ControllerRevision = await self._client.create(wanted)
        except AlreadyExists:
            meta = wanted.metadata
            there = await self._client.get(ControllerRevision, meta.name, meta.namespace)
            return there if RevisionTemplateCache().is_equal(there, bytes(wanted.data)) else None
        return made

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        """Make the revision the newest one again by raising its number."""
        return await self._patch(revision, {"revision": number})

    async def label(self, revision: ControllerRevision, key: str, value: str) -> ControllerRevision:
        """Set a label of the revision."""
        return await self._patch(revision, {}, {"labels": {key: value}})

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete the revision, if it still exists with this UID."""
        meta = revision.metadata
        try:
            this_one = Preconditions(uid=meta.uid)
            await self._client.delete(ControllerRevision, meta.name, meta.namespace, preconditions=this_one)
        except NotFound:
            return

    async def _patch(
        self, revision: ControllerRevision, change: dict[str, Any], metadata: dict[str, Any] | None = None
    ) -> ControllerRevision:
        meta = revision.metadata
        unchanged = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        patch = {**change, "metadata": {**unchanged, **(metadata or {})}}
        changed: ControllerRevision = await self._client.patch(ControllerRevision, meta.name, patch, meta.namespace)
        return changed


def new_metadata(owner: Any, reference: OwnerReference, name: str, labels: Mapping[str, str]) -> ObjectMeta:
    """Build the metadata of a new revision: the labels of the template and the annotations of the owner."""
    return ObjectMeta(
        name=name,
        namespace=owner.metadata.namespace,
        labels={**owner.spec.template.metadata.labels, **labels},
        annotations=owner.metadata.annotations,
        owner_references=(reference,),
    )
