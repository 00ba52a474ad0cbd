"""Pods of one template are asked for in the same words, by the thousand: what the first came to, the others come to.

Only for callers within the process. What admission was told while it completed the first pod is asked again for each
further one: a single other answer, and the pod goes the whole way. Checks that refuse, and quotas, see every pod.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.admission import Answered, Chain
from kubeloop.apiserver.request.context import Context, User

_MOST: Final = 256  # models that are remembered


class Model(NamedTuple):
    """A pod as it was stored, and all that this depended on beside the words in which it was asked for."""

    pod: Pod
    user: User
    agent: str
    namespace: str
    answers: tuple[Answered, ...]


class Models:
    """Pods that others are made after."""

    def __init__(self, admission: Chain) -> None:
        self._admission = admission
        self._known: dict[bytes, Model] = {}

    def of(self, ctx: Context) -> Model | None:
        """The one that a new pod can be made after."""
        if not ctx.has_typed_body or ctx.query or self._admission.mutate is not None:
            return None
        model = self._known.get(ctx.request.body)
        if model is None or model.user is not ctx.user or model.namespace != ctx.target.namespace:
            return None
        if model.agent != ctx.request.headers.get("user-agent", ""):
            return None
        return model if all(one.ask(*one.question) is one.answer for one in model.answers) else None

    def may_become(self, ctx: Context, obj: Any) -> bool:
        """Whether others can be made after an object with a drawn name, which must decide about nothing else."""
        return (
            ctx.has_typed_body
            and not ctx.query
            and isinstance(obj, Pod)
            and self._admission.lookup is not None
            and self._admission.mutate is None
            and not any(volume.ephemeral is not None for volume in obj.spec.volumes)
        )

    def remember(self, ctx: Context, pod: Pod, answers: list[Answered]) -> None:
        """A pod that was found right, with what admission was told while it was completed."""
        if ctx.warnings:
            return  # whose words may name it
        if len(self._known) >= _MOST:
            self._known.clear()
        agent = ctx.request.headers.get("user-agent", "")
        unique = {(one.ask, one.question): one for one in answers}
        self._known[ctx.request.body] = Model(pod, ctx.user, agent, ctx.target.namespace, tuple(unique.values()))


def made_after(model: Model, ctx: Context, uid: str) -> Pod:
    """Another pod, which has no name yet."""
    now = time_of(ctx.now)
    meta = model.pod.metadata
    owners = tuple([replace(entry, time=now) for entry in meta.managed_fields])
    fresh = replace(meta, uid=uid, creation_timestamp=now, managed_fields=owners, resource_version="")
    return replace(model.pod, metadata=fresh, status=replace(model.pod.status))
