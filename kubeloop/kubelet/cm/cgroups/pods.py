# SPDX-License-Identifier: Apache-2.0
"""Pod container manager: the control group of each pod, from its creation to the end of its last process."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from dataclasses import replace

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.strategy.pods.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class_of
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError, CgroupHierarchy, read_hierarchy
from kubeloop.kubelet.cm.cgroups.manager import CgroupManager
from kubeloop.kubelet.cm.cgroups.names import (
    KUBEPODS,
    POD_PREFIX,
    CgroupDriver,
    CgroupName,
    child,
    parse_path,
    pod_uid_of,
)
from kubeloop.kubelet.cm.cgroups.qos import qos_group
from kubeloop.kubelet.cm.cgroups.resource_config import (
    PodCgroupPolicy,
    ResourceConfig,
    resource_config_for_pod,
)

log = logging.getLogger(__name__)


class PodContainerManager:
    """Groups of pods below those of the QoS classes."""

    def __init__(self, cgroups: CgroupManager, root: CgroupName, policy: PodCgroupPolicy) -> None:
        self._cgroups = cgroups
        self._root = root
        self._policy = policy

    def name(self, pod: Pod) -> CgroupName:
        """Return the group of a pod."""
        qos = pod.status.qos_class or qos_class_of(pod.spec)
        return child(qos_group(self._root, qos), f"{POD_PREFIX}{pod.metadata.uid}")

    def path(self, pod: Pod) -> str:
        """Return the path of a pod's group, for the container runtime."""
        return self._cgroups.path(self.name(pod))

    def config_for(self, pod: Pod, *, has_exclusive_cpus: bool = False) -> ResourceConfig:
        """Return the limits of a pod; one with CPUs of its own has no quota."""
        policy = self._policy._replace(enforces_cpu_limits=False) if has_exclusive_cpus else self._policy
        return resource_config_for_pod(pod, policy)

    async def ensure_exists(self, pod: Pod, *, has_exclusive_cpus: bool = False) -> bool:
        """Create the group of a pod unless it exists; returns True if it did not. Raises `CgroupError`."""
        name = self.name(pod)
        if self._cgroups.exists(name):
            return False
        try:
            await self._cgroups.create(name, self.config_for(pod, has_exclusive_cpus=has_exclusive_cpus))
        except CgroupError as error:
            raise CgroupError(f"failed to create container for {list(name)} : {error}") from None
        return True

    def read(self, pod: Pod) -> ResourceConfig:
        """Return the present limits of a pod's group. Raises `CgroupError`."""
        return self._cgroups.read(self.name(pod))

    def memory_usage(self, pod: Pod) -> int:
        """Return the memory that a pod uses. Raises `CgroupError`."""
        return self._cgroups.memory_usage(self.name(pod))

    async def update(self, pod: Pod, config: ResourceConfig) -> None:
        """Change limits of a pod's group. Raises `CgroupError`."""
        await self._cgroups.update(self.name(pod), replace(config, huge_pages=None))

    def found_pods(self) -> dict[str, CgroupName]:
        """Return the groups of pods that exist, by UID."""
        classes = (GUARANTEED, BURSTABLE, BEST_EFFORT)
        groups = (one for qos in classes for one in self._cgroups.children(qos_group(self._root, qos)))
        return {uid: name for name in groups if (uid := pod_uid_of(name))}

    async def destroy(self, uid: str) -> None:
        """Kill the processes that a pod has left and remove its group. Raises `CgroupError`."""
        for qos in (GUARANTEED, BURSTABLE, BEST_EFFORT):
            name = child(qos_group(self._root, qos), f"{POD_PREFIX}{uid}")
            for process in self._cgroups.processes(name):
                log.info("killing process %d, which pod %s has left", process, uid)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        if (found := self.found_pods().get(uid)) is not None:
            await self._cgroups.destroy(found)


async def remove_pod_group(uid: str, root: str, hierarchy: CgroupHierarchy | None = None) -> None:
    """Remove the group of a pod whose kubelet does not run, whichever driver it had. Raises `CgroupError`."""
    drivers: tuple[CgroupDriver, ...] = ("cgroupfs", "systemd")
    for driver in drivers:
        cgroups = CgroupManager(hierarchy or read_hierarchy(), driver)
        await PodContainerManager(cgroups, child(parse_path(root), KUBEPODS), PodCgroupPolicy()).destroy(uid)
