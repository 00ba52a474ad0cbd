# SPDX-License-Identifier: Apache-2.0
"""Caches the admitted, validated form of a pod by its signature, so that later pods of a template skip these steps.

The lookups that admission made for the first pod are repeated for each further one; if one result differs, the pod
takes the full path. Validating plugins and quotas see every pod, and a name that the client chose is validated.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.admission import AdmissionChain, LookupRecord
from kubeloop.apiserver.registry.create_signature import create_signature
from kubeloop.apiserver.registry.field_manager import manager_of
from kubeloop.apiserver.request.context import RequestContext, User, has_typed_body

_MAX_ENTRIES: Final = 256
_MAX_SIGNATURE: Final = 1 << 14  # bytes; larger pods are not cached


class PodCreateEntry(NamedTuple):
    """Stored pod and everything its form depends on besides the signature."""

    pod: Pod
    user: User
    manager: str
    namespace: str
    lookups: tuple[LookupRecord, ...]


class PodCreateCache:
    """Cache of created pods, from which further pods are cloned.

    Invariant: an entry is a valid pod as it was stored, admitted from the signature that is its key; or from the body
    that is its key, which an in-process caller encoded from a pod without a name. It never changes.
    """

    def __init__(self, admission: AdmissionChain) -> None:
        self._admission = admission
        self._entries: dict[bytes, PodCreateEntry] = {}
        self._by_body: dict[bytes, PodCreateEntry] = {}

    def get_by_body(self, ctx: RequestContext) -> PodCreateEntry | None:
        """Return the entry of a typed body, before it is decoded: later pods of a template have the same one."""
        if ctx.query or not has_typed_body(ctx):
            return None
        return self._current(ctx, self._by_body.get(ctx.request.body))

    def signature_of(self, ctx: RequestContext, obj: Any) -> bytes | None:
        """Return the signature of a new object; None if it can't be cached."""
        if not isinstance(obj, Pod) or ctx.dry_run or obj.metadata.managed_fields:
            return None
        if self._admission.lookup is None or self._admission.dynamic_mutate is not None:
            return None
        if not (obj.metadata.name or obj.metadata.generate_name):
            return None  # invalid
        if any(volume.ephemeral is not None for volume in obj.spec.volumes):
            return None  # the names of their claims contain the pod's
        signature = create_signature(obj)
        return signature if len(signature) <= _MAX_SIGNATURE else None

    def get(self, ctx: RequestContext, signature: bytes) -> PodCreateEntry | None:
        """Return the cached entry from which a new pod can be cloned, or None."""
        return self._current(ctx, self._entries.get(signature))

    def _current(self, ctx: RequestContext, entry: PodCreateEntry | None) -> PodCreateEntry | None:
        """Return an entry if it is the admitted form of this request's pod, else None."""
        if entry is None or entry.namespace != ctx.target.namespace:
            return None
        if entry.user is not ctx.user and entry.user != ctx.user:
            return None
        if self._admission.dynamic_mutate is not None or entry.manager != manager_of(ctx):
            return None
        return entry if all(one.function(*one.args) is one.result for one in entry.lookups) else None

    def put(
        self, ctx: RequestContext, signature: bytes, pod: Pod, answers: list[LookupRecord], has_generated_name: bool
    ) -> None:
        """Cache a valid pod with the lookups that admission made while completing it."""
        if ctx.warnings:
            return  # a clone would be without them
        unique = {(one.function, one.args): one for one in answers}
        entry = PodCreateEntry(pod, ctx.user, manager_of(ctx), ctx.target.namespace, tuple(unique.values()))
        _put(self._entries, signature, entry)
        if has_generated_name and has_typed_body(ctx) and not ctx.query:
            _put(self._by_body, ctx.request.body, entry)


def _put(entries: dict[bytes, PodCreateEntry], key: bytes, entry: PodCreateEntry) -> None:
    if len(entries) >= _MAX_ENTRIES:
        entries.clear()
    entries[key] = entry


def clone_pod(entry: PodCreateEntry, now: datetime, uid: str, name: str) -> Pod:
    """Clone a cached pod with another identity."""
    time = time_of(now)
    meta = entry.pod.metadata
    owners = tuple([replace(owner, time=time) for owner in meta.managed_fields])
    fresh = replace(
        meta, name=name, uid=uid, creation_timestamp=time, managed_fields=owners, resource_version=""
    )  # fmt: skip
    return replace(entry.pod, metadata=fresh, status=replace(entry.pod.status))
