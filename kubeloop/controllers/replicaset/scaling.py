"""How far a set is from what it asks for, and which pods go when there are too many. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.pods import is_active, is_ready
from kubeloop.api.times import parse_time
from kubeloop.controllers.pod_ranking import first_to_go

BURST: Final = 500  # creates or deletes at a time; the next ones wait until the cache shows these


def surplus(active: int, wanted: int) -> int:
    """How many pods there are too many, or below zero too few, as far as they are seen to at a time."""
    return max(-BURST, min(BURST, active - wanted))


def pods_to_delete(active: Sequence[Pod], related: Iterable[Pod], count: int, now: datetime) -> Sequence[Pod]:
    """So many of the active pods; `related` are those of all sets of the same owner, which should spread over nodes."""
    on_node = Counter(pod.spec.node_name for pod in related if is_active(pod))
    return first_to_go(active, lambda pod: on_node[pod.spec.node_name], now)[:count]


def age_ratios(chosen: Iterable[Pod], active: Iterable[Pod], now: datetime) -> Iterator[float]:
    """How much older each ready pod that goes is than the youngest ready one: what the ranking is judged by."""
    youngest = min((_age(pod, now) for pod in active if is_ready(pod)), default=0.0)
    if youngest > 0:
        yield from (_age(pod, now) / youngest for pod in chosen if is_ready(pod))


def _age(pod: Pod, now: datetime) -> float:
    created = pod.metadata.creation_timestamp
    return (now - parse_time(created)).total_seconds() if created else 0.0
