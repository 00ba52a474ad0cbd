# SPDX-License-Identifier: Apache-2.0
"""A lease is renewed within the process as it is by a patch over the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.kubelet.node_status.heartbeat import LeaseRenewalPatch
from kubeloop.kubelet.node_status.registration import LEASE_NAMESPACE
from kubeloop.testing.cluster import Cluster

_NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _renewed(cluster: Cluster, name: str, patch: Any) -> Any:
    lease = cluster.run(cluster.async_client.patch(Lease, name, patch, LEASE_NAMESPACE))
    plain = codec.to_plain(lease)
    owners = [(one["manager"], one["time"], one["fieldsV1"]["f:spec"]) for one in plain["metadata"]["managedFields"]]
    return plain["spec"]["renewTime"], owners


def test_lease_renewal_equals_its_patch(cluster: Cluster) -> None:
    cluster.add_nodes(2)
    cluster.settle()
    renewal = LeaseRenewalPatch(_NOW)
    assert _renewed(cluster, "n1", renewal) == _renewed(cluster, "n2", renewal.document)
    assert cluster.client.get(Lease, "n1", LEASE_NAMESPACE).spec.holder_identity == "n1"
