# SPDX-License-Identifier: Apache-2.0
"""Tests of pods that wait for config maps, secrets and claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubeloop.api.generated.core_v1 import (
    ClusterTrustBundleProjection,
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    KeyToPath,
    PersistentVolumeClaimVolumeSource,
    Pod,
    ProjectedVolumeSource,
    Secret,
    SecretProjection,
    SecretVolumeSource,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta
from kubeloop.testing import Cluster, builders
from tests.controllers.certificate_requests import authority_in
from tests.controllers.storage import claim, volume
from tests.kubelet.pods import get, is_gone, put, runs, state

X = (KeyToPath(key="x", path="x"),)


def config_map(name: str = "settings", **fields: Any) -> Volume:
    return Volume(name="v", config_map=ConfigMapVolumeSource(name=name, **fields))


def secret(name: str = "keys", **fields: Any) -> Volume:
    return Volume(name="v", secret=SecretVolumeSource(secret_name=name, **fields))


def projected(*sources: VolumeProjection) -> Volume:
    return Volume(name="v", projected=ProjectedVolumeSource(sources=sources))


BOTH = projected(
    VolumeProjection(config_map=ConfigMapProjection(name="settings", items=X)),
    VolumeProjection(secret=SecretProjection(name="keys")),
)


def shows(cluster: Cluster, shown: Volume, name: str = "pod", **spec: Any) -> None:
    mount = (VolumeMount(name="v", mount_path="/v"),)
    put(cluster, name, containers=(runs("server", volume_mounts=mount),), volumes=(shown,), **spec)


def make(cluster: Cluster, kind: Any, name: str, **data: Any) -> None:
    cluster.client.create(kind(metadata=builders.metadata(name, "default"), data=data))


def complaints(cluster: Cluster) -> list[tuple[str, int]]:
    cluster.advance(0.1)
    return [(one.message, one.count or 1) for one in cluster.events(reason="FailedMount")]


def failed(why: str) -> str:
    return f'MountVolume.SetUp failed for volume "v" : {why}'


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (config_map(), 'configmap "settings" not found'),
        (secret(), 'secret "keys" not found'),
        (BOTH, '[configmap "settings" not found, secret "keys" not found]'),
    ],
)
def test_pod_waits_for_missing_config_maps_and_secrets(cluster: Cluster, shown: Volume, why: str) -> None:
    cluster.add_nodes(1)
    shows(cluster, shown)
    assert (state(get(cluster)), get(cluster).status.phase) == ("ContainerCreating", "Pending")
    assert complaints(cluster) == [(failed(why), 1)]
    make(cluster, ConfigMap, "settings", x="1")
    make(cluster, Secret, "keys", pin=b"1")
    cluster.advance(0.5)
    assert state(get(cluster)) == "running"
    assert complaints(cluster) == [(failed(why), 1)]


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (config_map(items=X), "configmap references non-existent config key: x"),
        (secret(items=X), "references non-existent secret key: x"),
        (BOTH, "configmap references non-existent config key: x"),
    ],
)
def test_named_keys_must_exist(cluster: Cluster, shown: Volume, why: str) -> None:
    cluster.add_nodes(1)
    make(cluster, ConfigMap, "settings")
    make(cluster, Secret, "keys")
    shows(cluster, shown)
    assert state(get(cluster)) == "ContainerCreating"
    assert complaints(cluster) == [(failed(why), 1)]
    cluster.client.patch(ConfigMap, "settings", {"data": {"x": "1"}}, "default")
    cluster.client.patch(Secret, "keys", {"data": {"x": "MQ=="}}, "default")
    cluster.advance(0.5)
    assert state(get(cluster)) == "running"


def trust_bundle(**fields: Any) -> Volume:
    return projected(VolumeProjection(cluster_trust_bundle=ClusterTrustBundleProjection(path="ca.crt", **fields)))


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        (
            trust_bundle(name="anchors"),
            'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "anchors" not found',
        ),
        (
            trust_bundle(signer_name="example.com/a", label_selector=LabelSelector(match_labels={"live": "yes"})),
            "combination of signerName and labelSelector matched zero ClusterTrustBundles",
        ),
    ],
)
def test_pod_waits_for_missing_trust_bundles(cluster: Cluster, tmp_path: Path, shown: Volume, why: str) -> None:
    anchors = Path(authority_in(tmp_path, cluster.clock.now())[0]).read_text()

    def make_bundle(name: str, signer: str, live: str) -> None:
        metadata = ObjectMeta(name=name, labels={"live": live})
        spec = ClusterTrustBundleSpec(signer_name=signer, trust_bundle=anchors)
        cluster.client.create(ClusterTrustBundle(metadata=metadata, spec=spec))

    cluster.add_nodes(1)
    make_bundle("example.com:b:live", "example.com/b", "yes")
    make_bundle("example.com:a:dead", "example.com/a", "no")
    shows(cluster, shown)
    assert state(get(cluster)) == "ContainerCreating"
    assert complaints(cluster) == [(failed(why), 1)]
    make_bundle("anchors", "", "yes")
    make_bundle("example.com:a:live", "example.com/a", "yes")
    cluster.advance(0.5)
    assert state(get(cluster)) == "running"


@pytest.mark.parametrize(
    "shown",
    [
        trust_bundle(name="anchors", optional=True),
        config_map(optional=True),
        secret(optional=True, items=X),
        projected(VolumeProjection(secret=SecretProjection(name="keys", optional=True))),
    ],
)
def test_optional_sources_are_not_waited_for(cluster: Cluster, shown: Volume) -> None:
    cluster.add_nodes(1)
    shows(cluster, shown)
    assert state(get(cluster)) == "running"


def test_optional_keys_are_not_waited_for(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    make(cluster, ConfigMap, "settings")
    shows(cluster, config_map(optional=True, items=X))
    assert state(get(cluster)) == "running"


def test_unused_volume_is_not_waited_for(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    put(cluster, volumes=(config_map(),))
    assert state(get(cluster)) == "running"


def test_mount_events_back_off(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    shows(cluster, config_map())
    for seconds, count in ((0.4, 1), (0.2, 2), (1, 3), (2, 4), (60, 8), (65, 9), (120, 9), (3, 10), (120, 11)):
        cluster.advance(seconds - 0.1)
        assert complaints(cluster) == [(failed('configmap "settings" not found'), count)]


def test_waiting_pod_can_be_deleted(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    shows(cluster, config_map())
    cluster.client.delete(Pod, "pod", "default")
    cluster.settle()
    assert is_gone(cluster)


def test_existing_sources_are_cached_for_a_while(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    make(cluster, ConfigMap, "settings")
    shows(cluster, config_map(), "first")
    cluster.client.delete(ConfigMap, "settings", "default")
    cluster.advance(11)
    shows(cluster, config_map(), "second")
    assert (state(get(cluster, "first")), state(get(cluster, "second"))) == ("running", "ContainerCreating")


CLAIMED = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="c"))
ALL = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: "


def test_pod_waits_for_a_missing_or_unbound_claim(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    shows(cluster, CLAIMED)
    assert (state(get(cluster)), get(cluster).status.phase) == ("ContainerCreating", "Pending")
    gone = 'error processing PVC default/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found'
    assert complaints(cluster) == [(ALL + gone, 1)]
    made = cluster.add(claim("c", volumeName="pv"))
    cluster.advance(11)
    unbound = (f"{ALL}error processing PVC default/c: PVC is not bound", 1)
    assert complaints(cluster) == [(ALL + gone, 1), unbound]
    reference = {"namespace": "default", "name": "c", "uid": made.metadata.uid}
    cluster.add(volume("pv", claimRef=reference))
    cluster.client.patch("persistentvolumeclaims", "c", {"status": {"phase": "Bound"}}, "default", subresource="status")
    cluster.settle()
    assert state(get(cluster)) == "running"


def test_pod_waits_for_a_volume_bound_to_its_claim(cluster: Cluster) -> None:
    cluster.add_nodes(1)
    made = cluster.add(claim("c", volumeName="pv"))
    cluster.client.patch("persistentvolumeclaims", "c", {"status": {"phase": "Bound"}}, "default", subresource="status")
    shows(cluster, CLAIMED)
    where = f"{ALL}error processing PVC default/c: "
    none = f'{where}failed to fetch PV pv from API server: persistentvolumes "pv" not found'
    assert complaints(cluster) == [(none, 1)]
    cluster.add(volume("pv", claimRef={"namespace": "default", "name": "c", "uid": "other"}))
    cluster.advance(11)
    uid = made.metadata.uid
    other = f"{where}found PV object pv but its pv.Spec.ClaimRef.UID other does not point to claim.UID {uid}"
    assert complaints(cluster) == [(none, 1), (other, 1)]
