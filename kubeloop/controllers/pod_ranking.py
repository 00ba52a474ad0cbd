"""Which of an owner's active pods goes first when there are too many. Pure.

In this order the first difference decides: unassigned before assigned, pending before unknown before running, unready
before ready, cheap before dear (by the pods' own word), crowded nodes before lonely ones, recently ready before long
ready, often restarted before steady, young before old. Times are compared by magnitude, so that of pods of about the
same age chance decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods import is_ready, ready_since
from kubeloop.api.times import parse_time

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_COST: Final = re.compile("0|-?[1-9][0-9]*|-0+[0-9]*")  # as upstream reads one: no plus sign, no leading zeros
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NEVER: Final = -2  # a rank below that of any time

Rank = tuple[bool, int, bool, int, int, int, int, int, int, str]


def first_to_go(pods: Iterable[Pod], crowding: Callable[[Pod], int], now: datetime) -> list[Pod]:
    """The pods in the order in which they are to be deleted; `crowding` tells how many ready pods share the node."""
    return sorted(pods, key=lambda pod: _rank(pod, crowding(pod), now))


def _rank(pod: Pod, crowding: int, now: datetime) -> Rank:
    regular, sidecars = _restarts(pod)
    ready = is_ready(pod)
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        ready,
        deletion_cost(pod),
        -crowding,
        _magnitude(ready_since(pod), now) if ready else 0,
        -regular,
        -sidecars,
        _magnitude(parse_time(created) if created else None, now),
        pod.metadata.uid,
    )


def deletion_cost(pod: Pod) -> int:
    """What the pod says its end would cost; nothing if it says nothing that can be understood."""
    text = (pod.metadata.annotations or {}).get(DELETION_COST, "")
    if not _COST.fullmatch(text):
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0


def _restarts(pod: Pod) -> tuple[int, int]:
    """The most restarts of a container, and of a sidecar."""
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    regular = max((one.restart_count for one in pod.status.container_statuses), default=0)
    return regular, max(
        (one.restart_count for one in pod.status.init_container_statuses if one.name in sidecars), default=0
    )


def _magnitude(moment: datetime | None, now: datetime) -> int:
    """How long ago, as a power of two of nanoseconds."""
    if moment is None:
        return _NEVER
    nanoseconds = (now - moment) // timedelta(microseconds=1) * 1000
    return nanoseconds.bit_length() - 1 if nanoseconds > 0 else -1
