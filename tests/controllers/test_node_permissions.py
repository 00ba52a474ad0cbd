# SPDX-License-Identifier: Apache-2.0
"""The loops about nodes do all their work with the rights of the account that upstream's role is for."""

from __future__ import annotations

from dataclasses import replace

from kubeloop.api.generated.core_v1 import Node
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import AUTHENTICATED, User
from kubeloop.client import Client
from kubeloop.controllers import node_ipam, node_lifecycle, taint_eviction
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster
from tests.controllers.nodes import SimulatedNodes, configure

ACCOUNT = "system:serviceaccount:kube-system:node-controller"


def test_node_controllers_role_is_sufficient_for_three_controllers(cluster: Cluster) -> None:
    env = SimulatedNodes(cluster)
    env.add("a", "b", labels={"kubernetes.io/os": "linux"})
    env.run_pod("pod", "a")
    configure(cluster, allocate_node_cidrs=True, cluster_cidr="10.0.0.0/16")
    client = Client(InProcessTransport(cluster.server, User(ACCOUNT, ("system:serviceaccounts", AUTHENTICATED))))

    def with_rights(module: object) -> Loop:
        def wire(context: ControllerContext) -> Loop:
            made: Loop = module.wire(replace(context, client=client))  # type: ignore[attr-defined]  # every loop has it
            return made

        return cluster.start(wire)

    loops = [with_rights(module) for module in (node_lifecycle, taint_eviction, node_ipam)]
    env.advance(1)
    env.silence("a")
    env.advance(400)
    assert env.taints("a") == env.taints("a", "NoSchedule") == ["unreachable"]
    assert env.node("a").metadata.labels["beta.kubernetes.io/os"] == "linux"
    assert all(one.spec.pod_cidrs for one in cluster.client.list(Node).items)
    pod = env.pod("pod")
    assert pod.metadata.deletion_timestamp is not None
    said = {one.type: one.status for one in pod.status.conditions}
    assert (said["Ready"], said["DisruptionTarget"]) == ("False", "True")
    assert [loop.status().last_error for loop in loops] == ["", "", ""]
