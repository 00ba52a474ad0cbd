# SPDX-License-Identifier: Apache-2.0
"""Warnings about a pod's containers: duplicate variables and ports, fractional bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubeloop.api.generated.core_v1 import Container, ContainerPort, EnvVar, EphemeralContainer, PodSpec
from kubeloop.api.meta.field_path import FieldPath, quote
from kubeloop.api.warnings.amounts import fraction_warnings

AnyContainer = Container | EphemeralContainer
# Number of definitions of one port that later ones are compared with.
_MAX_COMPARED: Final = 300
_BYTES: Final = ("memory", "ephemeral-storage")


def containers_with_paths(spec: PodSpec, base: FieldPath) -> list[tuple[AnyContainer, FieldPath]]:
    """Return all containers with their paths, in starting order."""
    groups: tuple[tuple[str, Sequence[AnyContainer]], ...] = (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers or ()),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    return [(each, base.child(name).index(i)) for name, group in groups for i, each in enumerate(group)]


def container_warnings(container: AnyContainer, path: FieldPath) -> Iterator[str]:
    """Yield the warnings about a single container."""
    resources = container.resources
    if resources.limits or resources.requests:
        for name in _BYTES:
            yield from fraction_warnings(path.child("resources", "limits"), resources.limits, name)
            yield from fraction_warnings(path.child("resources", "requests"), resources.requests, name)
    if len(container.env) > 1:
        yield from _hidden_variables(container.env, path.child("env"))


def _hidden_variables(env: tuple[EnvVar, ...], path: FieldPath) -> Iterator[str]:
    """Yield warnings about variables that hide an earlier definition, unless they are derived from it."""
    seen: set[str] = set()
    for i, variable in enumerate(env):
        if variable.name not in seen:
            seen.add(variable.name)
            continue
        itself = f"$({variable.name})"
        extends = variable.value_from is None and itself in variable.value and variable.value != itself
        if not extends:
            hidden = quote(variable.name)
            yield f"{path.index(i)}: hides previous definition of {hidden}, which may be dropped when using apply"


def port_warnings(containers: list[tuple[AnyContainer, FieldPath]]) -> Iterator[str]:
    """Yield warnings about ports that several containers use, by number first and then by name."""
    places = [
        (port, path.child("ports").index(i)) for container, path in containers for i, port in enumerate(container.ports)
    ]
    if not places:
        return
    seen: dict[tuple[int, str], list[tuple[ContainerPort, FieldPath]]] = {}
    for port, path in places:
        if port.host_ip and not port.host_port:
            yield f"{path}: hostIP set without hostPort: {_spelled(port)}"
        others = seen.setdefault((port.container_port, port.protocol), [])
        for other, where in others:
            if clash := _clash(port, other):
                yield f"{path}: {clash} port definition with {where}"
        if len(others) < _MAX_COMPARED:
            others.append((port, path))
    named: dict[str, FieldPath] = {}
    for port, path in places:
        if port.name in named:
            first = named[port.name]
            yield (
                f"{path}: duplicate port name {quote(port.name)} with {first}, "
                f"services and probes that select ports by name will use {first}"
            )
        elif port.name:
            named[port.name] = path


def _clash(port: ContainerPort, other: ContainerPort) -> str:
    if (port.host_ip, port.host_port) == (other.host_ip, other.host_port):
        return "duplicate"
    if not port.host_port or not other.host_port:
        return "overlapping"
    one_is_everywhere = bool(port.host_ip) != bool(other.host_ip)
    return "dangerously ambiguous" if port.host_port == other.host_port and one_is_everywhere else ""


def _spelled(port: ContainerPort) -> str:
    return (
        f"{{Name:{port.name} HostPort:{port.host_port} ContainerPort:{port.container_port} "
        f"Protocol:{port.protocol} HostIP:{port.host_ip}}}"
    )
