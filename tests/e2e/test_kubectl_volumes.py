# SPDX-License-Identifier: Apache-2.0
"""Claims and volumes through kubectl, on the real program with simulated nodes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import make_namespace
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, eventually
from tests.skips import needs_kubectl

_numbers = itertools.count(1)

pytestmark = needs_kubectl()


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane that makes volumes; a test keeps to its own namespace, and names volumes after it."""
    plane = Plane(tmp_path_factory.mktemp("storage"), "--ephemeral", "--nodes", "1", "--default-storage-class")
    try:
        plane.start()
        yield plane
    finally:
        plane.close()


@pytest.fixture
def kubectl(storage: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(storage.kubeconfig, make_namespace(storage, f"volumes-{next(_numbers)}"), kubectl_home)


def claim(**spec: Any) -> str:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return json.dumps({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": body})


def volume(name: str, policy: str) -> str:
    spec = {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "persistentVolumeReclaimPolicy": policy,
        "hostPath": {"path": f"/tmp/{name}"},
    }
    return json.dumps({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})


def pod(name: str) -> str:
    source = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"containers": [{"name": "c", "image": "nginx:1"}], "volumes": [source], "terminationGracePeriodSeconds": 0}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def phase(kubectl: Kubectl, what: str) -> str:
    """Return the object, or an empty one if it does not exist."""
    return kubectl("get", what, "--ignore-not-found", "-o", "jsonpath={.status.phase}")


def test_claim_binds_by_default_and_its_volume_is_deleted_with_it(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=claim())
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", WAIT)
    assert kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.storageClassName}") == "standard"
    name = kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
    assert phase(kubectl, f"pv/{name}") == "Bound"
    assert "ProvisioningSucceeded" in kubectl("describe", "pvc", "data")
    kubectl("delete", "pvc", "data", WAIT)
    eventually(lambda: not phase(kubectl, f"pv/{name}"))


@pytest.mark.parametrize(("policy", "after"), [("Retain", "Released"), ("Delete", "")])
def test_reclaim_policy_is_honored(kubectl: Kubectl, policy: str, after: str) -> None:
    name = f"by-hand-{policy.lower()}"
    kubectl("apply", "-f", "-", stdin=volume(name, policy))
    kubectl("apply", "-f", "-", stdin=claim(storageClassName=name))
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", WAIT)
    kubectl("delete", "pvc", "data", WAIT)
    eventually(lambda: phase(kubectl, f"pv/{name}") == after)


def test_a_claim_in_use_is_deleted_after_its_pod(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=claim())
    kubectl("apply", "-f", "-", stdin=pod("user"))
    kubectl("wait", "--for=condition=Ready", "pod/user", WAIT)
    kubectl("delete", "pvc", "data", "--wait=false")
    assert phase(kubectl, "pvc/data") == "Bound"
    assert "Terminating" in kubectl("get", "pvc", "data")
    kubectl("delete", "pod", "user", WAIT)
    eventually(lambda: not phase(kubectl, "pvc/data"))


def test_claim_is_expanded(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=claim())
    kubectl("wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data", WAIT)
    kubectl("patch", "pvc", "data", "-p", '{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}')
    kubectl("wait", "--for=jsonpath={.status.capacity.storage}=3Gi", "pvc/data", WAIT)


def test_csi_volume_works_on_a_simulated_node(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-disk"
    disk = json.loads(volume(name, "Retain"))
    del disk["spec"]["hostPath"]
    disk["spec"]["csi"] = {"driver": "disks.example.com", "volumeHandle": name}
    kubectl("apply", "-f", "-", stdin=json.dumps(disk))
    kubectl("apply", "-f", "-", stdin=claim(storageClassName=name))
    kubectl("apply", "-f", "-", stdin=pod("user"))
    kubectl("wait", "--for=condition=Ready", "pod/user", WAIT)
    path = "jsonpath={.status.volumesAttached[*].name} {.status.volumesInUse[*]}"
    assert f"^{name} " in kubectl("get", "node", "n1", "-o", path)
    assert "SuccessfulAttachVolume" in kubectl("describe", "pod", "user")
    kubectl("delete", "pod", "user", WAIT)
    eventually(lambda: name not in kubectl("get", "volumeattachments", "-o", "jsonpath={.items[*].spec.source}"))
