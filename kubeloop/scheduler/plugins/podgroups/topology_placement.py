# SPDX-License-Identifier: Apache-2.0
"""TopologyPlacementGenerator: one placement per value of a group's topology label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubeloop.scheduler.framework.placement import Placement
from kubeloop.scheduler.framework.plugin import Plugin, error_status
from kubeloop.scheduler.framework.status import Status
from kubeloop.scheduler.podgroups.group_key import topology_key
from kubeloop.scheduler.podgroups.pod_group_info import PodGroupInfo

if TYPE_CHECKING:
    from kubeloop.scheduler.cache.cluster import ClusterState


class TopologyPlacementGenerator(Plugin):
    """Generates placements by topology; pods that already run determine the only one."""

    name = "TopologyPlacementGenerator"

    def generate_placements(
        self, group: PodGroupInfo, parent: Placement, cluster: ClusterState
    ) -> Sequence[Placement] | Status:
        """Return the nodes of a placement by the value of the label; the placement itself without a constraint."""
        key = topology_key(group.group)
        if not key:
            return (parent,)
        required = self._scheduled_domain(group, key, cluster)
        if isinstance(required, Status):
            return required
        domains: dict[str, set[str]] = {}
        for node in cluster.nodes.values():
            domain = node.metadata.labels.get(key)
            if domain is not None and node.metadata.name in parent.node_names and required in (None, domain):
                domains.setdefault(domain, set()).add(node.metadata.name)
        return [Placement(domain, frozenset(names)) for domain, names in sorted(domains.items())]

    def _scheduled_domain(self, group: PodGroupInfo, key: str, cluster: ClusterState) -> str | Status | None:
        """Return the domain of the group's pods that have a node; None if there are none."""
        found: str | None = None
        manager = self.handle.pod_groups
        for leaf in group.leaves():
            for pod, name in manager.state(leaf.key).scheduled_pods():
                row = cluster.row_of(name)
                pod_name = f"{pod.metadata.namespace}/{pod.metadata.name}"
                if row is None:
                    return self._failed(f'getting node for pod {pod_name}: nodeinfo not found for node name "{name}"')
                domain = cluster.nodes[row].metadata.labels.get(key)
                if domain is None:
                    return self._failed(f"no topology domain found for pod {pod_name}")
                if found not in (None, domain):
                    return self._failed(f"more than 1 domain found for pod group: {found}, {domain}")
                found = domain
        return found

    def _failed(self, why: str) -> Status:
        return error_status(self.name, f"cannot determine domain for already scheduled pods: {why}")
