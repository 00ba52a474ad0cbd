# SPDX-License-Identifier: Apache-2.0
"""Computes when a pod must leave a node with taints. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node, Taint, Toleration
from kubeloop.api.pods.placement import tolerates

NO_EXECUTE: Final = "NoExecute"
_LONGEST: Final = 1e10  # a toleration may have any length, a timer may not


class TaintEviction(NamedTuple):
    """Eviction of a pod: when it was decided and when it is due, in monotonic seconds."""

    uid: str
    decided_at: float
    due: float

    @property
    def is_immediate(self) -> bool:
        """True if the eviction was due when it was decided."""
        return self.due <= self.decided_at


def eviction_taints(node: Node | None) -> tuple[Taint, ...]:
    """Return the NoExecute taints of a node."""
    return () if node is None else tuple(one for one in node.spec.taints if one.effect == NO_EXECUTE)


def min_toleration_seconds(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> float | None:
    """Return the seconds for which all taints are tolerated, each by its first toleration; None for ever."""
    shortest: float | None = None
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            seconds = float(max(used.toleration_seconds, 0))
            shortest = seconds if shortest is None else min(shortest, seconds)
    return shortest


def eviction_of(uid: str, seconds: float | None, before: TaintEviction | None, now: float) -> TaintEviction | None:
    """Return the new eviction of a pod whose taints are tolerated for these seconds.

    A scheduled time stays: a change of taints neither extends nor shortens it, unless they are not tolerated at all.
    """
    if seconds is None:
        return None
    if before is not None and before.uid != uid:
        before = None
    if before is not None and (seconds > 0 or before.is_immediate):
        return before
    return TaintEviction(uid, now, now + min(seconds, _LONGEST))
