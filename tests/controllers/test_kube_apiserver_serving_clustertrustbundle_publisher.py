# SPDX-License-Identifier: Apache-2.0
"""The bundle by which the API server is recognized."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.kube_apiserver_serving_clustertrustbundle_publisher import bundle_of, wire
from kubeloop.testing import Cluster
from tests.controllers.certificate_requests import authority_in
from tests.controllers.permissions import start_as

ACCOUNT = "kube-apiserver-serving-clustertrustbundle-publisher"


@pytest.fixture
def authorities(cluster: Cluster, tmp_path: Path) -> list[str]:
    return [Path(authority_in(tmp_path / name, cluster.clock.now())[0]).read_text() for name in ("old", "new")]


def bundles(cluster: Cluster) -> list[tuple[str, str, str]]:
    return [
        (one.metadata.name, one.spec.signer_name, one.spec.trust_bundle)
        for one in cluster.client.list(ClusterTrustBundle).items
    ]


def described(root_ca: str) -> tuple[str, str, str]:
    wanted = bundle_of(root_ca)
    return wanted.metadata.name, wanted.spec.signer_name, root_ca


def test_bundle_is_published_and_recreated(cluster: Cluster, authorities: list[str]) -> None:
    cluster.context = replace(cluster.context, root_ca=authorities[1])
    start_as(cluster, ACCOUNT, wire)
    assert bundles(cluster) == [described(authorities[1])]
    cluster.client.delete(ClusterTrustBundle, bundle_of(authorities[1]).metadata.name)
    cluster.settle()
    assert bundles(cluster) == [described(authorities[1])]


def test_modified_bundle_is_restored(cluster: Cluster, authorities: list[str]) -> None:
    cluster.context = replace(cluster.context, root_ca=authorities[1])
    start_as(cluster, ACCOUNT, wire)
    name = bundle_of(authorities[1]).metadata.name
    cluster.client.patch(ClusterTrustBundle, name, {"spec": {"trustBundle": authorities[0]}})
    cluster.settle()
    assert bundles(cluster) == [described(authorities[1])]


def test_bundles_of_former_cas_are_deleted_and_other_bundles_are_kept(cluster: Cluster, authorities: list[str]) -> None:
    cluster.client.create(bundle_of(authorities[0]))
    other = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": "mine"},
        "spec": {"trustBundle": authorities[0]},
    }
    cluster.client.create(other)
    cluster.context = replace(cluster.context, root_ca=authorities[1])
    start_as(cluster, ACCOUNT, wire)
    assert bundles(cluster) == [described(authorities[1]), ("mine", "", authorities[0])]


def test_bundle_name_has_signer_and_content_hash() -> None:
    assert bundle_of("a").metadata.name == "kubernetes.io:kube-apiserver-serving:ca978112ca1bbdcafac231b3"


def test_controller_is_idle_without_ca(cluster: Cluster) -> None:
    assert isinstance(wire(cluster.context), DisabledController)
