# SPDX-License-Identifier: Apache-2.0
"""The collector and the namespace loop beside an API server: over its port, each with no more than its own rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.manager_process import ManagerProcess
from tests.e2e.plane import Plane, eventually
from tests.skips import skip_without_kubectl

LOOPS = "serviceaccount,garbagecollector,namespace,podgc"
GADGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    alone = Plane(tmp_path_factory.mktemp("server"), command="apiserver")
    alone.start()
    flags = (f"--controllers={LOOPS}", "--use-service-account-credentials", "--kube-api-qps=1000")
    manager = ManagerProcess(alone, tmp_path_factory.mktemp("managers") / "one", *flags)
    manager.start()
    yield alone
    complaints = [line for line in manager.errors().splitlines() if "ERROR" in line or "Forbidden" in line]
    manager.close()
    alone.close()
    assert complaints == []


@pytest.fixture
def kubectl(server: Plane, kubectl_home: Path, request: pytest.FixtureRequest) -> Kubectl:
    skip_without_kubectl()
    name = f"ns-{abs(hash(request.node.name)) % 10**8}"
    server.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return Kubectl(server.kubeconfig, name, kubectl_home)


def owned_by(owner: dict[str, Any], kind: str, api_version: str, name: str) -> dict[str, Any]:
    meta = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    named = {"name": name, "ownerReferences": [reference | {"blockOwnerDeletion": True}]}
    return {"apiVersion": api_version, "kind": kind, "metadata": named}


def is_gone(kubectl: Kubectl, what: str) -> bool:
    return "NotFound" in kubectl.run("get", what).err


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_kubectl_deletes_with_every_propagation_policy(kubectl: Kubectl, cascade: str) -> None:
    kubectl("create", "configmap", "owner")
    owner = kubectl.json("get", "configmap", "owner")
    kubectl.apply(owned_by(owner, "ConfigMap", "v1", "child"))
    kubectl("delete", "configmap", "owner", f"--cascade={cascade}")
    assert is_gone(kubectl, "configmap/owner")
    if cascade == "orphan":
        assert "ownerReferences" not in kubectl.json("get", "configmap", "child")["metadata"]
    else:
        eventually(lambda: is_gone(kubectl, "configmap/child"))


def test_custom_resources_are_collected_and_deleted_with_their_namespace(kubectl: Kubectl) -> None:
    kubectl.apply(GADGETS)
    kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com")
    kubectl("create", "configmap", "owner")
    owner = kubectl.json("get", "configmap", "owner")
    gadget = owned_by(owner, "Gadget", "example.com/v1", "gadget")
    eventually(lambda: kubectl.run("apply", "-f", "-", stdin=yaml.safe_dump(gadget)).code == 0)
    kubectl.apply(owned_by(kubectl.json("get", "gadget", "gadget"), "Secret", "v1", "child"))
    kubectl("delete", "configmap", "owner")
    eventually(lambda: is_gone(kubectl, "gadget/gadget") and is_gone(kubectl, "secret/child"))
    kubectl.apply({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "lone"}})
    kubectl("create", "deployment", "app", "--image=x", "--replicas=0")
    kubectl("delete", "namespace", kubectl.namespace, WAIT)
    assert kubectl("get", "gadgets", "--all-namespaces", "-o", "name") == ""


def test_unscheduled_pod_is_deleted(kubectl: Kubectl) -> None:
    eventually(lambda: kubectl.run("get", "serviceaccount", "default").code == 0)
    kubectl("run", "pod", "--image=x")
    kubectl("delete", "pod", "pod", WAIT)
