"""What a check finds in a pod, and the words in which it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta


class Finding(NamedTuple):
    """Why a level forbids a pod; the detail is shown when it is about one pod."""

    reason: str
    detail: str


Check = Callable[[ObjectMeta, PodSpec], Finding | None]


def containers(spec: PodSpec) -> Iterator[Any]:
    yield from spec.init_containers
    yield from spec.containers or ()
    yield from spec.ephemeral_containers


def contexts(spec: PodSpec) -> Iterator[tuple[str, Any]]:
    """Each container that says something about its security, by name."""
    for container in containers(spec):
        if container.security_context is not None:
            yield container.name, container.security_context


def quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def counted(noun: str, items: Sequence[str]) -> str:
    """The noun, in the plural where there are several."""
    return noun if len(items) == 1 else noun + "s"


def named(noun: str, names: Sequence[str]) -> str:
    return f"{counted(noun, names)} {quoted(names)}"


def setters(pod_too: bool, names: Sequence[str]) -> str:
    """Who set something: the pod, containers, or both."""
    parts = ["pod"] if pod_too else []
    if names:
        parts.append(named("container", names))
    return " and ".join(parts)
