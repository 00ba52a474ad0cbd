# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong meanwhile, in the end slices and endpoints hold each pod of a service once, as it is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import Conflict, Invalid, NotFound
from kubeloop.api.generated.core_v1 import Endpoints, Node, Pod, Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.pods.pod import is_ready, is_terminal
from kubeloop.controllers import endpoints, endpointslice, endpointslice_mirroring
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.app.context import ControllerContext, Wire
from kubeloop.runtime.manager import Loop
from kubeloop.testing import Cluster
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step
from tests.controllers.services import MANAGED_BY, NS, ZONE, add_node, add_pod, service, set_pod, slices

CAPACITY = 3
CHANGES = (
    "add pod", "ready", "unready", "end pod", "delete pod", "relabel", "delete slice", "spoil slice", "new ports",
    "label service", "drop selector", "give selector", "remake service", "rezone", "prefer zone", "wait", "settle",
    "check", "check",
)  # fmt: skip


def small(wire: Wire) -> Wire:
    """Slices that are soon full."""

    def wired(context: ControllerContext) -> Loop:
        config = ManagerConfig(max_endpoints_per_slice=CAPACITY)
        other = ControllerContext(context.client, context.informers, context.clock, context.recorder, config)
        return wire(other)

    return wired


class EndpointSliceHarness:
    """Nodes, pods, a service, and the controllers, each in a separate process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._made = 0
        add_node(cluster, "n0", zone="a")
        add_node(cluster, "n1", zone="b")
        cluster.add(service(ports=[{"name": "a", "port": 80}]))
        for number in range(5):
            self._add_pod(number)
        wires = (endpointslice.wire, endpoints.wire, endpointslice_mirroring.wire)
        self._processes = [ControllerProcess(cluster, small(wire)) for wire in wires]

    def take(self, step: Step) -> None:
        name, number = step
        change = getattr(self, f"_{name.replace(' ', '_')}", None)
        if change is None:
            self._processes[number % 3 if name == "crash" else 0].disturb(name, number)
            return
        with suppress(NotFound, Conflict, Invalid):  # what was to be changed isn't there, or has ended
            change(number)

    # Steps of users and nodes

    def _add_pod(self, number: int) -> None:
        self._made += 1
        add_pod(self.cluster, f"p{self._made}", f"10.1.0.{self._made}", on=f"n{number % 2}", ready=number > 1)

    def _pod(self, number: int) -> str:
        found = sorted(one.metadata.name for one in self.cluster.client.list(Pod, NS).items)
        return found[number % len(found)] if found else "none"

    def _ready(self, number: int) -> None:
        set_pod(self.cluster, self._pod(number), ready=True)

    def _unready(self, number: int) -> None:
        set_pod(self.cluster, self._pod(number), ready=False)

    def _end_pod(self, number: int) -> None:
        set_pod(self.cluster, self._pod(number), phase="Succeeded", ready=False)

    def _delete_pod(self, number: int) -> None:
        self.cluster.client.delete(Pod, self._pod(number), NS, grace_seconds=0 if number % 2 else None)

    def _relabel(self, number: int) -> None:
        labels = {"app": "s" if number % 2 else "other"}
        self.cluster.client.patch(Pod, self._pod(number), {"metadata": {"labels": labels}}, NS)

    def _slice(self, number: int) -> str:
        found = slices(self.cluster)
        return found[number % len(found)].metadata.name if found else "none"

    def _delete_slice(self, number: int) -> None:
        self.cluster.client.delete(EndpointSlice, self._slice(number), NS)

    def _spoil_slice(self, number: int) -> None:
        wrong = {"endpoints": [{"addresses": ["10.9.9.9"]}]}
        self.cluster.client.patch(EndpointSlice, self._slice(number), wrong, NS)

    def _change_service(self, patch: dict[str, Any]) -> None:
        self.cluster.client.patch(Service, "s", patch, NS)

    def _new_ports(self, number: int) -> None:
        self._change_service({"spec": {"ports": [{"name": "a", "port": 80, "targetPort": 80 + number}]}})

    def _label_service(self, number: int) -> None:
        self._change_service({"metadata": {"labels": {"l": str(number)}}})

    def _drop_selector(self, _: int) -> None:
        self._change_service({"spec": {"selector": None}})

    def _give_selector(self, _: int) -> None:
        self._change_service({"spec": {"selector": {"app": "s"}}})

    def _remake_service(self, _: int) -> None:
        self.cluster.client.delete(Service, "s", NS)
        self.cluster.add(service(ports=[{"name": "a", "port": 80}]))

    def _rezone(self, number: int) -> None:
        self.cluster.client.patch(Node, f"n{number % 2}", {"metadata": {"labels": {ZONE: f"z{number}"}}})

    def _prefer_zone(self, number: int) -> None:
        self._change_service({"spec": {"trafficDistribution": "PreferClose" if number % 2 else None}})

    def _wait(self, number: int) -> None:
        self.cluster.advance(number)

    def _settle(self, _: int) -> None:
        self.cluster.settle()

    # Invariants

    def _check(self, _: int) -> None:
        """Check the final state after all retries."""
        self.cluster.faults.clear()
        self._give_selector(0)
        self.cluster.advance(minutes=10)
        wanted = {one.metadata.name: one for one in self.cluster.client.list(Pod, NS).items if self._is_wanted(one)}
        self._check_slices(wanted)
        self._check_endpoints(wanted)
        versions = self._versions()
        self.cluster.advance(100)
        assert self._versions() == versions

    def _is_wanted(self, one: Pod) -> bool:
        return one.metadata.labels.get("app") == "s" and not is_terminal(one) and bool(one.status.pod_ips)

    def _check_slices(self, wanted: dict[str, Pod]) -> None:
        owner = self.cluster.client.get(Service, "s", NS)
        zones = {one.metadata.name: one.metadata.labels[ZONE] for one in self.cluster.client.list(Node).items}
        found = slices(self.cluster)
        listed = [(one, each) for one in found for each in one.endpoints or ()]
        assert sorted(each.target_ref.name for _, each in listed if each.target_ref) == sorted(wanted)
        assert len(listed) == len(wanted)
        assert len(found) >= 1
        close = owner.spec.traffic_distribution is not None
        for one in found:
            assert len(one.endpoints or ()) <= CAPACITY
            assert [owner.metadata.uid] == [each.uid for each in one.metadata.owner_references]
            assert one.metadata.labels[MANAGED_BY] == "endpointslice-controller.k8s.io"
            assert one.metadata.labels.get("l") == owner.metadata.labels.get("l")
        for one, each in listed:
            assert each.target_ref is not None
            pod = wanted[each.target_ref.name]
            terminating, serving = pod.metadata.deletion_timestamp is not None, is_ready(pod)
            said = each.conditions
            assert (said.ready, said.serving, said.terminating) == (
                serving and not terminating,
                serving,
                terminating,
            )
            assert (each.addresses, each.zone) == ((pod.status.pod_ip,), zones[pod.spec.node_name])
            assert [port.port for port in one.ports or ()] == [owner.spec.ports[0].target_port]
            assert (each.hints is not None) == (close and bool(said.ready))

    def _check_endpoints(self, wanted: dict[str, Pod]) -> None:
        found: Endpoints = self.cluster.client.get(Endpoints, "s", NS)
        living = {name: one for name, one in wanted.items() if one.metadata.deletion_timestamp is None}
        ready = sorted(one.status.pod_ip for one in living.values() if is_ready(one))
        others = sorted(one.status.pod_ip for one in living.values() if not is_ready(one))
        assert sorted(one.ip for each in found.subsets for one in each.addresses) == ready
        assert sorted(one.ip for each in found.subsets for one in each.not_ready_addresses) == others

    def _versions(self) -> list[str]:
        kept = [*slices(self.cluster), self.cluster.client.get(Endpoints, "s", NS)]
        return sorted(one.metadata.resource_version for one in kept)


# Twice the changes: more of them than of trouble.
taken_steps = st.lists(
    st.tuples(st.sampled_from((*CHANGES, *CHANGES, *NETWORK, *LOSSES)), st.integers(0, 7)), min_size=10, max_size=25
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(taken_steps, st.integers(0, 2**16))
def test_every_pod_is_listed_exactly_once_with_its_state(taken: list[Step], seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = EndpointSliceHarness(cluster)
        for step in taken:
            harness.take(step)
        harness.take(("check", 0))
