"""The history of a workload's pod template: one ControllerRevision a template that it has had, numbered as they came.

A revision's data is a patch that puts its template back, as `kubectl rollout undo` applies it. Two revisions are equal
if their templates are, whatever their bytes: servers and managers of other versions write other ones.
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
LONGEST_PREFIX: Final = 223  # so that a hash fits behind it into a name
REMEMBERED: Final = 4096  # revisions whose data need not be read again

_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_SORTED: Final = msgspec.json.Encoder(enc_hook=str, order="sorted")
_DIRECTIVE: Final = "$patch"
# What Go's encoder writes otherwise: hashes are made of these bytes.
_GO_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


class UnreadableRevision(ValueError):
    """A revision's data is no patch of a pod template."""


# What a revision says.


def data_of(template: PodTemplateSpec) -> bytes:
    """The patch that puts a template back: the same bytes for the same template."""
    body = _SORTED.encode(template)
    for plain, escaped in _GO_ESCAPES:
        body = body.replace(plain, escaped)
    rest = body[1:] if body == b"{}" else b"," + body[1:]
    return b'{"spec":{"template":{"$patch":"replace"' + rest + b"}}"


def hash_of(data: bytes, collision_count: int | None = None) -> str:
    """A short name for a patch; a collision count makes another one of the same patch."""
    probe = b"" if collision_count is None else str(collision_count).encode()
    value = _FNV_OFFSET
    for byte in data + probe:
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    return safe_text(value)


def name_of(owner: str, hash: str) -> str:
    return f"{owner[:LONGEST_PREFIX]}-{hash}"


def template_in(revision: ControllerRevision) -> PodTemplateSpec:
    """The template that a revision puts back, completed as servers of today complete one."""
    try:
        said = msgspec.json.decode(revision.data)["spec"]["template"]
        template = codec.from_plain({key: one for key, one in said.items() if key != _DIRECTIVE}, PodTemplateSpec)
    except (msgspec.MsgspecError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRevision(f"{revision.metadata.name} holds no pod template: {error}") from error
    apply_defaults(DaemonSet(spec=DaemonSetSpec(template=template)))  # templates have the same defaults everywhere
    return template


class Templates:
    """What revisions say, read once for each version of them."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, str], tuple[PodTemplateSpec, bytes]] = OrderedDict()

    def of(self, revision: ControllerRevision) -> PodTemplateSpec:
        return self._remembered(revision)[0]

    def holds(self, revision: ControllerRevision, data: bytes) -> bool:
        """Whether a revision means the same as this patch, which is made by `data_of`."""
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
            template = template_in(revision)
            known = self._read[key] = (template, data_of(template))
            if len(self._read) > REMEMBERED:
                self._read.popitem(last=False)
        return known


# Their order.


def in_order(revisions: Iterable[ControllerRevision]) -> list[ControllerRevision]:
    """By number; then by age, then by name."""
    return sorted(
        revisions, key=lambda one: (one.revision, str(one.metadata.creation_timestamp or ""), one.metadata.name)
    )


def next_number(ordered: Sequence[ControllerRevision]) -> int:
    return ordered[-1].revision + 1 if ordered else 1


def beyond_limit(
    ordered: Sequence[ControllerRevision], live: Iterable[str], limit: int | None
) -> Sequence[ControllerRevision]:
    """The oldest ones that no pod and no rollout needs, as far as there are more of those than the limit."""
    if limit is None or limit < 0:
        return ()
    kept = frozenset(live)
    idle = [one for one in ordered if one.metadata.name not in kept]
    return idle[: max(0, len(idle) - limit)]


# Writing.


class Revisions:
    """Writes revisions; each change names the version that it was decided upon."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, wanted: ControllerRevision) -> ControllerRevision | None:
        """The revision as it was made, or as it already was; None if the name stands for another template."""
        try:
            made: ControllerRevision = await self._client.create(wanted)
        except AlreadyExists:
            meta = wanted.metadata
            there = await self._client.get(ControllerRevision, meta.name, meta.namespace)
            return there if Templates().holds(there, bytes(wanted.data)) else None
        return made

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        """The same template is the newest one again."""
        return await self._patch(revision, {"revision": number})

    async def label(self, revision: ControllerRevision, key: str, value: str) -> ControllerRevision:
        return await self._patch(revision, {}, {"labels": {key: value}})

    async def delete(self, revision: ControllerRevision) -> None:
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
    """What a new revision of an owner is called and labelled: as the template's pods, and annotated as the owner."""
    return ObjectMeta(
        name=name,
        namespace=owner.metadata.namespace,
        labels={**owner.spec.template.metadata.labels, **labels},
        annotations=owner.metadata.annotations,
        owner_references=(reference,),
    )
