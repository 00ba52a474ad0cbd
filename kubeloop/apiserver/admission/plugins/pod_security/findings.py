# SPDX-License-Identifier: Apache-2.0
"""Violations found by pod security checks, and the wording of their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kubeloop.api.generated.core_v1 import PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta


class PodSecurityViolation(NamedTuple):
    """Violation: reason, and the detail shown for a single pod."""

    reason: str
    detail: str


Check = Callable[[ObjectMeta, PodSpec], PodSecurityViolation | None]


def containers(spec: PodSpec) -> Iterator[Any]:
    """Yield all containers: init, regular and ephemeral."""
    yield from spec.init_containers
    yield from spec.containers or ()
    yield from spec.ephemeral_containers


def security_contexts(spec: PodSpec) -> Iterator[tuple[str, Any]]:
    """Yield (name, securityContext) of each container that has one."""
    for container in containers(spec):
        if container.security_context is not None:
            yield container.name, container.security_context


def quoted(items: Iterable[str]) -> str:
    """Return the items quoted and joined by commas."""
    return ", ".join(f'"{item}"' for item in items)


def pluralize(noun: str, items: Sequence[str]) -> str:
    """Return the noun, in the plural unless there is exactly one item."""
    return noun if len(items) == 1 else noun + "s"


def noun_with_names(noun: str, names: Sequence[str]) -> str:
    """Return the noun with the quoted names."""
    return f"{pluralize(noun, names)} {quoted(names)}"


def setters(pod_too: bool, names: Sequence[str]) -> str:
    """Return the text that names the pod, containers, or both, as the origin of a setting."""
    parts = ["pod"] if pod_too else []
    if names:
        parts.append(noun_with_names("container", names))
    return " and ".join(parts)
