# SPDX-License-Identifier: Apache-2.0
"""Websites, tested: the definition goes to a server that checks and completes objects by it."""

import pytest
from website import Spec, Website, wire

from kubeloop.client import Invalid
from kubeloop.testing import Cluster, metadata
from kubeloop.types.apps_v1 import Deployment


@pytest.fixture
def sites(cluster: Cluster) -> Cluster:
    cluster.start(wire)
    return cluster


def site(name: str, **spec: object) -> Website:
    return Website(metadata=metadata(name, "default"), spec=Spec(**spec))


def test_website_creates_an_owned_deployment(sites: Cluster) -> None:
    made = sites.add(site("shop", image="shop:1", replicas=3))
    sites.settle()
    deployment = sites.client.get(Deployment, "shop", "default")
    assert deployment.spec.replicas == 3
    assert deployment.metadata.owner_references[0].uid == made.metadata.uid


def test_website_status_shows_ready_replicas(sites: Cluster) -> None:
    sites.add(site("shop", image="shop:1"))
    sites.settle()
    status = {"status": {"replicas": 1, "readyReplicas": 1}}
    sites.client.patch(Deployment, "shop", status, "default", subresource="status")
    sites.settle()
    assert sites.client.get(Website, "shop", "default").status.ready == 1


def test_modified_deployment_is_restored(sites: Cluster) -> None:
    sites.add(site("shop", image="shop:1", replicas=3))
    sites.settle()
    sites.client.patch(Deployment, "shop", {"spec": {"replicas": 9}}, "default")
    sites.settle()
    assert sites.client.get(Deployment, "shop", "default").spec.replicas == 3


def test_server_enforces_the_schema_of_the_types(sites: Cluster) -> None:
    with pytest.raises(Invalid, match=r"spec.replicas"):
        sites.add(site("shop", image="shop:1", replicas=11))
