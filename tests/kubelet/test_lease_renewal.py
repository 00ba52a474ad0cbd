# SPDX-License-Identifier: Apache-2.0
"""Leases and node statuses of simulated nodes over hours: renewed in time, visible to readers and watchers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.scalars.times import format_micro_time, parse_micro_time, parse_time
from kubeloop.api.struct_patch import LeaseRenewalPatch
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.client import Client
from kubeloop.controllers import node_lifecycle
from kubeloop.kubelet.eviction.manager import EvictionManager
from kubeloop.kubelet.node_status.registration import LEASE_NAMESPACE
from kubeloop.kubelet.node_status.served_nodes import PARTITIONED, STATE_ANNOTATION
from kubeloop.testing.cluster import ADMIN, Cluster

_NOW = datetime(2030, 1, 1, tzinfo=UTC)
_PERIOD = timedelta(seconds=10)


def _renewed(cluster: Cluster, name: str, patch: Any) -> Any:
    lease = cluster.run(cluster.async_client.patch(Lease, name, patch, LEASE_NAMESPACE))
    plain = codec.to_plain(lease)
    owners = [(one["manager"], one["time"], one["fieldsV1"]["f:spec"]) for one in plain["metadata"]["managedFields"]]
    return plain["spec"]["renewTime"], owners


def _lease(cluster: Cluster, name: str) -> Lease:
    return cluster.client.get(Lease, name, LEASE_NAMESPACE)


def _age(cluster: Cluster, name: str) -> timedelta:
    renewed = _lease(cluster, name).spec.renew_time
    assert renewed is not None
    return cluster.clock.now() - parse_micro_time(renewed)


def test_lease_renewal_equals_its_patch(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.settle()
    renewal = LeaseRenewalPatch(_NOW)
    assert _renewed(cluster, "n1", renewal) == _renewed(cluster, "n2", renewal.document)
    assert cluster.client.get(Lease, "n1", LEASE_NAMESPACE).spec.holder_identity == "n1"


def test_leases_and_statuses_are_current_after_a_day(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    started = cluster.clock.now()
    cluster.advance(hours=24)
    cluster.advance(seconds=3)
    for name in ("n1", "n2"):
        assert _lease(cluster, name).spec.renew_time == format_micro_time(started + timedelta(hours=24))
        ready = find_condition(cluster.client.get(Node, name).status.conditions, "Ready")
        assert ready is not None
        assert ready.last_heartbeat_time is not None
        assert ready.last_transition_time is not None
        assert cluster.clock.now() - parse_time(ready.last_heartbeat_time) < timedelta(minutes=5, seconds=10)
        assert parse_time(ready.last_transition_time) == started


def test_each_renewal_has_a_revision_an_event_and_a_request(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.advance(minutes=1)
    seen: list[tuple[str, Any, int]] = []

    async def watch() -> None:
        version = (await cluster.async_client.list(Lease, LEASE_NAMESPACE)).resource_version
        async for batch in cluster.async_client.watch(
            Lease, LEASE_NAMESPACE, resource_version=version, timeout_seconds=65, bookmarks=False
        ):
            seen.extend((one.type, one.object, int(one.resource_version)) for one in batch)

    before = _patches_of_leases(cluster)
    cluster.run(watch())
    assert [one[0] for one in seen] == ["MODIFIED"] * 12
    revisions = [one[2] for one in seen]
    assert revisions == sorted(set(revisions))
    for name in ("n1", "n2"):
        versions = [one[1] for one in seen if one[1].metadata.name == name]
        times = [parse_micro_time(one.spec.renew_time) for one in versions]
        assert [later - earlier for earlier, later in pairwise(times)] == [_PERIOD] * 5
        assert versions[-1] == _lease(cluster, name)
    assert _patches_of_leases(cluster) - before == 12


def _patches_of_leases(cluster: Cluster) -> int:
    lines = cluster.server.metrics.render().decode().splitlines()
    counts = [one for one in lines if one.startswith("apiserver_request_total{") and 'resource="leases"' in one]
    return sum(int(one.rpartition(" ")[2]) for one in counts if 'verb="PATCH"' in one and 'code="200"' in one)


def test_history_of_renewals_is_compacted(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.advance(hours=3)
    store = cluster.server.registry.store
    assert 0 < store.revision - store.compact_revision < 2 * 6 * 15  # of a quarter of an hour at most


def test_writes_of_others_to_a_lease_are_kept(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.advance(minutes=1)
    cluster.client.patch(Lease, "n1", {"metadata": {"labels": {"by": "test"}}}, LEASE_NAMESPACE)
    cluster.client.delete(Lease, "n2", LEASE_NAMESPACE)
    cluster.advance(minutes=1)
    assert _lease(cluster, "n1").metadata.labels == {"by": "test"}
    assert _age(cluster, "n1") < _PERIOD
    assert _age(cluster, "n2") < _PERIOD  # created again


def test_failing_renewals_of_a_node_do_not_delay_others(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.advance(minutes=1)
    cluster.faults.fail("write", "leases.coordination.k8s.io", name="n1", times=None)
    cluster.advance(minutes=2)
    assert _age(cluster, "n1") >= timedelta(minutes=2)
    assert _age(cluster, "n2") < _PERIOD
    cluster.faults.clear()
    cluster.advance(minutes=5)
    assert _age(cluster, "n1") < _PERIOD


def test_error_in_a_heartbeat_silences_no_node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = []
    synchronize = EvictionManager.synchronize

    def failing(manager: EvictionManager, node: Node) -> None:
        if errors:
            raise errors.pop()
        synchronize(manager, node)

    monkeypatch.setattr(EvictionManager, "synchronize", failing)
    cluster.add_nodes(3)
    cluster.advance(minutes=1)
    errors.append(RuntimeError("unexpected"))
    cluster.advance(minutes=1)
    assert not errors
    assert all(_age(cluster, name) < _PERIOD for name in ("n1", "n2", "n3"))


def test_node_that_stops_after_an_idle_day_is_noticed(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.start(node_lifecycle.wire)
    cluster.advance(hours=24)
    cluster.client.patch(Node, "n1", {"metadata": {"annotations": {STATE_ANNOTATION: PARTITIONED}}})
    cluster.advance(seconds=70)
    ready = {
        one.metadata.name: getattr(find_condition(one.status.conditions, "Ready"), "status", "")
        for one in cluster.client.list(Node).items
    }
    assert ready == {"n1": "Unknown", "n2": "True"}


def test_policy_sees_each_renewal(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    cluster.advance(minutes=1)
    rule = {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["*"]}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "frozen"},
        "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]},
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "frozen"},
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]},
    }
    cluster.add(policy, binding)
    cluster.settle()
    cluster.advance(minutes=2)
    assert _age(cluster, "n1") >= timedelta(minutes=2)
    cluster.client.delete("validatingadmissionpolicybindings", "frozen")
    cluster.advance(minutes=20)  # after the longest backoff
    assert _age(cluster, "n1") < _PERIOD


def test_only_repeated_renewals_are_made_together(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    client = Client(InProcessTransport(cluster.server, ADMIN), user_agent="other")

    def renew(seconds: int) -> frozenset[str]:
        renewal = LeaseRenewalPatch(_NOW + timedelta(seconds=seconds))
        return cluster.run(client.patch_together(Lease, ["n1", "n2"], renewal, LEASE_NAMESPACE))

    assert renew(1) == frozenset()  # made by another manager until now
    cluster.run(client.patch(Lease, "n1", LeaseRenewalPatch(_NOW + timedelta(seconds=2)), LEASE_NAMESPACE))
    assert renew(3) == {"n1"}
    assert _lease(cluster, "n1").spec.renew_time == format_micro_time(_NOW + timedelta(seconds=3))
    assert renew(3) == frozenset()  # nothing changes
    cluster.advance(seconds=1)
    assert renew(3) == frozenset()
    cluster.client.patch(Lease, "n1", {"metadata": {"labels": {"by": "test"}}}, LEASE_NAMESPACE)
    assert renew(4) == frozenset()
