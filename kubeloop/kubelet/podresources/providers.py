# SPDX-License-Identifier: Apache-2.0
"""Providers of the PodResources API: what each resource manager tells about containers and about the node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.kubelet.podresources.messages import ContainerDevices, ContainerMemory, DynamicResource


class DevicesProvider(Protocol):
    """Devices of plugins."""

    def get_devices(self, uid: str, container: str) -> tuple[ContainerDevices, ...]:
        """Return the devices of a container."""

    def get_allocatable_devices(self) -> tuple[ContainerDevices, ...]:
        """Return all healthy devices."""


class CPUsProvider(Protocol):
    """CPUs that belong to containers."""

    def get_cpus(self, pod: Pod, container: Container) -> tuple[int, ...]:
        """Return the CPUs that a container has for itself."""

    def get_allocatable_cpus(self) -> tuple[int, ...]:
        """Return the CPUs that containers can have for themselves."""


class MemoryProvider(Protocol):
    """Memory of NUMA nodes."""

    def get_memory(self, pod: Pod, container: Container) -> tuple[ContainerMemory, ...]:
        """Return the memory of a container."""

    def get_allocatable_memory(self) -> tuple[ContainerMemory, ...]:
        """Return the memory of the node."""


class DynamicResourcesProvider(Protocol):
    """Resource claims."""

    def get_dynamic_resources(self, pod: Pod, container: Container) -> tuple[DynamicResource, ...]:
        """Return the claims of a container."""


class NoResources:
    """Provider of a node without a manager of these resources."""

    def get_cpus(self, pod: Pod, container: Container) -> tuple[int, ...]:
        """Return nothing."""
        return ()

    def get_allocatable_cpus(self) -> tuple[int, ...]:
        """Return nothing."""
        return ()

    def get_memory(self, pod: Pod, container: Container) -> tuple[ContainerMemory, ...]:
        """Return nothing."""
        return ()

    def get_allocatable_memory(self) -> tuple[ContainerMemory, ...]:
        """Return nothing."""
        return ()

    def get_dynamic_resources(self, pod: Pod, container: Container) -> tuple[DynamicResource, ...]:
        """Return nothing."""
        return ()


@dataclass(frozen=True, slots=True)
class PodResourcesProviders:
    """All providers; `active_pods` returns those of the node's pods that have not terminated."""

    pods: Callable[[], list[Pod]]
    active_pods: Callable[[], list[Pod]]
    devices: DevicesProvider
    cpus: CPUsProvider = field(default_factory=NoResources)
    memory: MemoryProvider = field(default_factory=NoResources)
    dynamic_resources: DynamicResourcesProvider = field(default_factory=NoResources)
