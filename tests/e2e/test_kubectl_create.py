# SPDX-License-Identifier: Apache-2.0
"""kubectl makes objects: create of every kind it has a command for, run, expose, dry runs, refusals."""

from __future__ import annotations

import pytest
import yaml

from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import config_map
from tests.e2e.workloads import deployment, pod
from tests.skips import NEEDS_NEWER_KUBECTL, kubectl_version

IN_A_NAMESPACE = {
    "configmap": ["configmap", "made", "--from-literal=colour=blue"],
    "secret": ["secret", "generic", "made", "--from-literal=password=hidden"],
    "deployment": ["deployment", "made", "--image=nginx:1.27"],
    "service": ["service", "clusterip", "made", "--tcp=80:8080"],
    "job": ["job", "made", "--image=busybox"],
    "cronjob": ["cronjob", "made", "--image=busybox", "--schedule=*/5 * * * *"],
    "serviceaccount": ["serviceaccount", "made"],
    "role": ["role", "made", "--verb=get", "--resource=pods"],
    "rolebinding": ["rolebinding", "made", "--role=made", "--user=somebody"],
    "quota": ["quota", "made", "--hard=pods=10"],
    "ingress": ["ingress", "made", "--rule=example.com/=web:80"],
    "poddisruptionbudget": ["poddisruptionbudget", "made", "--selector=app=web", "--min-available=1"],
}
IN_THE_CLUSTER = {
    "namespace": [],
    "clusterrole": ["--verb=get", "--resource=pods"],
    "clusterrolebinding": ["--clusterrole=view", "--user=somebody"],
    "priorityclass": ["--value=1000"],
}
# Debian's old kubectl creates these in a beta version that is no longer served.
BETA_IN_1_20 = {"cronjob", "ingress", "poddisruptionbudget"}


@pytest.mark.parametrize("kind", IN_A_NAMESPACE)
def test_create_in_a_namespace(kubectl: Kubectl, kind: str) -> None:
    if kubectl_version() < (1, 21) and kind in BETA_IN_1_20:
        pytest.skip(f"{NEEDS_NEWER_KUBECTL}1.21")
    kubectl("create", *IN_A_NAMESPACE[kind])
    assert kubectl("get", kind, "made", "-o", "name").strip().endswith("/made")


@pytest.mark.parametrize("kind", IN_THE_CLUSTER)
def test_create_in_the_cluster(kubectl: Kubectl, kind: str) -> None:
    name = f"{kubectl.namespace}-{kind}"
    kubectl("create", kind, name, *IN_THE_CLUSTER[kind])
    assert kubectl("get", kind, name, "-o", "name").strip().endswith(f"/{name}")
    kubectl("delete", kind, name, "--wait=false")


def test_second_create_is_rejected(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "one")
    assert kubectl.fails("create", "configmap", "one").strip().endswith('configmaps "one" already exists')


def test_secrets_round_trip(kubectl: Kubectl) -> None:
    kubectl("create", "secret", "generic", "one", "--from-literal=password=ä b\n")
    encoded = kubectl("get", "secret", "one", "-o", "go-template={{.data.password | base64decode}}")
    assert encoded == "ä b\n"
    header, row = kubectl("get", "secrets", "one").splitlines()
    assert header.split() == ["NAME", "TYPE", "DATA", "AGE"]
    assert row.split()[:3] == ["one", "Opaque", "1"]


def test_run_creates_a_pod(kubectl: Kubectl) -> None:
    kubectl("run", "web", "--image=nginx:1.27", "--port=80", "--labels=tier=front")
    found = kubectl.json("get", "pod", "web")
    assert found["spec"]["containers"][0]["image"] == "nginx:1.27"
    assert found["metadata"]["labels"] == {"tier": "front"}
    assert found["status"]["phase"] == "Pending"


def test_expose_creates_a_service(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"))
    kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080")
    spec = kubectl.json("get", "service", "web")["spec"]
    assert spec["selector"] == {"app": "web"}
    assert spec["ports"][0]["targetPort"] == 8080
    assert spec["clusterIP"].count(".") == 3


def test_generate_name(kubectl: Kubectl) -> None:
    document = config_map("")
    document["metadata"] = {"generateName": "made-"}
    names = [kubectl("create", "-f", "-", "-o", "name", stdin=yaml.safe_dump(document)) for _ in range(2)]
    assert names[0] != names[1]
    assert all(name.startswith("configmap/made-") for name in names)


def test_server_dry_run_changes_nothing(kubectl: Kubectl) -> None:
    text = yaml.safe_dump(deployment("web"))
    made = kubectl.json("create", "--dry-run=server", "-f", "-", stdin=text)
    assert made["spec"]["strategy"]["type"] == "RollingUpdate", "defaults were filled in"
    assert "NotFound" in kubectl.fails("get", "deployment", "web")
    assert "server dry run" in kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    kubectl.apply(pod("kept"))
    kubectl("delete", "pod", "kept", "--dry-run=server")
    assert kubectl("get", "pod", "kept", "-o", "name").strip() == "pod/kept"


def test_invalid_object_is_rejected_with_its_fields(kubectl: Kubectl) -> None:
    wrong = pod("Not_A_Name")
    wrong["spec"]["containers"][0]["name"] = ""
    said = kubectl.fails("create", "-f", "-", stdin=yaml.safe_dump(wrong))
    assert 'The Pod "Not_A_Name" is invalid' in said
    assert "metadata.name: Invalid value" in said
    assert "spec.containers[0].name: Required value" in said


def test_unknown_field_is_rejected(kubectl: Kubectl) -> None:
    wrong = pod("one")
    wrong["spec"]["containers"][0]["colour"] = "blue"
    said = kubectl.fails("create", "-f", "-", stdin=yaml.safe_dump(wrong))
    assert "colour" in said


def test_objects_in_a_missing_namespace_are_rejected(kubectl: Kubectl) -> None:
    said = kubectl.fails("create", "configmap", "one", "-n", "nowhere")
    assert 'namespaces "nowhere" not found' in said
