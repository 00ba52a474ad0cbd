# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong: a volume for one node is never on two, no pod runs without its volume, and all is let go of."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Node, PersistentVolumeClaim, Pod
from kubeloop.api.generated.storage_v1 import VolumeAttachment
from kubeloop.api.pods.pod import is_ready
from kubeloop.controllers import attach_detach
from kubeloop.testing import Cluster
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.storage import NS, claim, user_of, volume

NODES = ("n1", "n2", "n3")
UNIQUE = "kubernetes.io/csi/d.example.com^h-v"
ACTIONS = ("run", "run", "end", "end", "advance", *NETWORK, *LOSSES)


class AttachDetachHarness:
    """Volume for one node at a time, and pods on several nodes that need it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made = 0
        cluster.add_nodes(len(NODES))
        made = cluster.add(claim("c", volumeName="v"))
        reference = {"namespace": NS, "name": "c", "uid": made.metadata.uid}
        csi = {"driver": "d.example.com", "volumeHandle": "h-v"}
        cluster.add(volume("v", hostPath=None, csi=csi, claimRef=reference))
        cluster.client.patch(PersistentVolumeClaim, "c", {"status": {"phase": "Bound"}}, NS, subresource="status")
        self._process = ControllerProcess(cluster, attach_detach.wire)

    def take(self, name: str, number: int) -> None:
        if name == "run":
            self._made += 1
            self.cluster.add(user_of(f"p{self._made}", "c", node=NODES[number % len(NODES)]))
        elif name == "end":
            for pod in self.pods()[:1]:
                self.cluster.client.delete(Pod, pod.metadata.name, NS, grace_seconds=1)
        elif name == "advance":
            self.cluster.advance(2 * number)
        else:
            self._process.disturb(name, number)
        self.check()

    def pods(self) -> list[Pod]:
        return [one for one in self.cluster.client.list(Pod, NS).items if one.metadata.deletion_timestamp is None]

    def running_on(self) -> set[str]:
        found = self.cluster.client.list(Pod, NS).items
        return {one.spec.node_name for one in found if is_ready(one)}

    def attached_to(self) -> set[str]:
        found = self.cluster.client.list(VolumeAttachment).items
        return {one.spec.node_name for one in found if one.status.attached}

    def check(self) -> None:
        assert len(self.attached_to()) <= 1
        assert self.running_on() <= self.attached_to()


# Two nodes need the volume, and the cache does not show the attachment that was created for the first.
@example(happenings=[("late watch", 0), ("run", 3), ("run", 4)], seed=335)
@example(
    happenings=[("end", 6), ("late watch", 6), ("lose delete", 2), ("run", 0), ("conflict", 3), ("run", 1)], seed=477
)
@settings(max_examples=10, deadline=None)
@given(steps(*ACTIONS, most=16), st.integers(0, 1000))
def test_volume_is_attached_to_one_node_at_a_time_and_when_used(happenings: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = AttachDetachHarness(cluster)
        for name, number in happenings:
            harness.take(name, number)
        cluster.faults.clear()
        cluster.advance(120)
        harness.check()
        wanted = {pod.spec.node_name for pod in harness.pods()}
        assert bool(harness.running_on()) == bool(wanted)  # attached if any pod needs it
        for pod in harness.pods():
            cluster.client.delete(Pod, pod.metadata.name, NS, grace_seconds=1)
        cluster.advance(120)
        assert harness.attached_to() == set()
        for name in NODES:
            status = cluster.client.get(Node, name).status
            assert (status.volumes_attached, status.volumes_in_use) == ((), ())
