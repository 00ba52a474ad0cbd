"""Caches the admitted, validated form of a pod by request body, so that a ReplicaSet's later pods skip these steps.

Only for in-process callers. The lookups that admission made for the first pod are repeated for each further one; if
one result differs, the pod takes the full path. Validating plugins and quotas see every pod.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.admission import AdmissionChain, LookupRecord
from kubeloop.apiserver.request.context import RequestContext, User, has_typed_body

_MAX_ENTRIES: Final = 256  # maximum number of entries


class PodCreateEntry(NamedTuple):
    """Stored pod and everything its form depends on besides the request body."""

    pod: Pod
    user: User
    agent: str
    namespace: str
    lookups: tuple[LookupRecord, ...]


class PodCreateCache:
    """Cache of created pods, from which further pods are cloned."""

    def __init__(self, admission: AdmissionChain) -> None:
        self._admission = admission
        self._entries: dict[bytes, PodCreateEntry] = {}

    def get(self, ctx: RequestContext) -> PodCreateEntry | None:
        """Return the cached entry from which a new pod can be cloned, or None."""
        if not has_typed_body(ctx) or ctx.query or self._admission.dynamic_mutate is not None:
            return None
        model = self._entries.get(ctx.request.body)
        if model is None or model.user is not ctx.user or model.namespace != ctx.target.namespace:
            return None
        if model.agent != ctx.request.headers.get("user-agent", ""):
            return None
        return model if all(one.function(*one.args) is one.result for one in model.lookups) else None

    def is_cacheable(self, ctx: RequestContext, obj: Any) -> bool:
        """Return True if the created object can be cached: a pod with a generated name and no special options."""
        return (
            has_typed_body(ctx)
            and not ctx.query
            and isinstance(obj, Pod)
            and self._admission.lookup is not None
            and self._admission.dynamic_mutate is None
            and not any(volume.ephemeral is not None for volume in obj.spec.volumes)
        )

    def put(self, ctx: RequestContext, pod: Pod, answers: list[LookupRecord]) -> None:
        """Cache a valid pod with the lookups that admission made while completing it."""
        if ctx.warnings:
            return  # warnings may contain the pod's name
        if len(self._entries) >= _MAX_ENTRIES:
            self._entries.clear()
        agent = ctx.request.headers.get("user-agent", "")
        unique = {(one.function, one.args): one for one in answers}
        self._entries[ctx.request.body] = PodCreateEntry(
            pod, ctx.user, agent, ctx.target.namespace, tuple(unique.values())
        )


def clone_pod(model: PodCreateEntry, ctx: RequestContext, uid: str) -> Pod:
    """Clone the cached pod, without a name yet."""
    now = time_of(ctx.now)
    meta = model.pod.metadata
    owners = tuple([replace(entry, time=now) for entry in meta.managed_fields])
    fresh = replace(meta, uid=uid, creation_timestamp=now, managed_fields=owners, resource_version="")
    return replace(model.pod, metadata=fresh, status=replace(model.pod.status))
