# SPDX-License-Identifier: Apache-2.0
"""Tests of endpoints and leases of live servers."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.core_v1 import Endpoints
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.peers.endpoint_reconciler import LeaseEndpointReconciler
from kubeloop.apiserver.peers.register import IdentityLease, identity_of, is_expired
from kubeloop.testing import Cluster


def server(cluster: Cluster, address: str, port: int = 6443) -> LeaseEndpointReconciler:
    registry = cluster.server.registry

    async def make() -> LeaseEndpointReconciler:
        made = LeaseEndpointReconciler(
            registry, BootstrapWriter(registry, cluster.clock, DEFAULT_FEATURES), address, port
        )
        await made.join()
        return made

    made = cluster.run(make())
    cluster.settle()
    return made


def published_endpoints(cluster: Cluster) -> set[tuple[str, int]]:
    """Return the published addresses of Endpoints, which slices must equal."""
    endpoints = cluster.client.get(Endpoints, "kubernetes", "default")
    found = {(one.ip, subset.ports[0].port) for subset in endpoints.subsets for one in subset.addresses}
    slices = cluster.client.list(EndpointSlice, "default").items
    assert found == {(one, item.ports[0].port) for item in slices for each in item.endpoints for one in each.addresses}
    assert any(item.metadata.name == "kubernetes" for item in slices)
    return found


def test_endpoints_have_live_servers(cluster: Cluster) -> None:
    one = server(cluster, "192.0.2.1")
    assert published_endpoints(cluster) == {("192.0.2.1", 6443)}
    other = server(cluster, "192.0.2.2")
    assert published_endpoints(cluster) == {("192.0.2.1", 6443), ("192.0.2.2", 6443)}
    cluster.run(one.leave())
    cluster.settle()
    assert published_endpoints(cluster) == {("192.0.2.2", 6443)}
    cluster.run(other.leave())
    cluster.settle()
    assert published_endpoints(cluster) == {("192.0.2.2", 6443)}  # no server is left to update it


def test_servers_with_other_ports_and_families_have_their_own_slices(cluster: Cluster) -> None:
    server(cluster, "192.0.2.1")
    far = server(cluster, "192.0.2.1", 7443)
    server(cluster, "2001:db8::1", 7443)
    assert published_endpoints(cluster) == {("192.0.2.1", 6443), ("192.0.2.1", 7443), ("2001:db8::1", 7443)}
    assert len(cluster.client.list(EndpointSlice, "default").items) == 3
    cluster.run(far.leave())
    cluster.settle()
    assert published_endpoints(cluster) == {("192.0.2.1", 6443), ("2001:db8::1", 7443)}


def test_manual_change_is_reverted_at_the_next_renewal(cluster: Cluster) -> None:
    one = server(cluster, "192.0.2.1")
    cluster.client.delete(Endpoints, "kubernetes", "default")
    cluster.run(_called(one.renew))
    cluster.settle()
    assert published_endpoints(cluster) == {("192.0.2.1", 6443)}


async def _called(what: object) -> None:
    assert callable(what)
    what()


def test_a_loopback_address_is_an_endpoint_for_programs_on_the_same_machine(cluster: Cluster) -> None:
    server(cluster, "127.0.0.1")
    assert "kubernetes" in {one.metadata.name for one in cluster.client.list(Endpoints, "default").items}


def test_server_renews_its_lease_and_deletes_expired_ones(cluster: Cluster) -> None:
    registry = cluster.server.registry
    own = BootstrapWriter(registry, cluster.clock, DEFAULT_FEATURES)
    mine, gone = (IdentityLease(registry, own, cluster.clock, address) for address in ("a:1", "b:1"))
    cluster.run(_called(mine.renew))
    cluster.run(_called(gone.renew))
    first = cluster.client.get(Lease, mine.name, "kube-system")
    assert first.metadata.labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    cluster.advance(hours=1, seconds=1)
    cluster.run(_called(mine.renew))
    cluster.run(_called(mine.delete_expired))
    cluster.settle()
    renewed = cluster.client.get(Lease, mine.name, "kube-system")
    assert renewed.spec.renew_time is not None
    assert first.spec.renew_time is not None
    assert renewed.spec.renew_time > first.spec.renew_time
    assert renewed.metadata.uid == first.metadata.uid
    assert gone.name not in {one.metadata.name for one in cluster.client.list(Lease, "kube-system").items}


def test_server_names_are_distinct_and_stable(cluster: Cluster) -> None:
    assert identity_of("host", "a:1") == identity_of("host", "a:1") != identity_of("host", "a:2")
    assert identity_of("host", "a:1").startswith("apiserver-")
    assert len(identity_of("host", "a:1")) == len("apiserver-") + 26
    now = cluster.clock.now()
    spec = LeaseSpec(lease_duration_seconds=60, renew_time=MicroTime(format_micro_time(now)))
    assert not is_expired(spec, now + timedelta(seconds=60))
    assert is_expired(spec, now + timedelta(seconds=61))
    assert is_expired(msgspec.structs.replace(spec, renew_time=None), now)
