# SPDX-License-Identifier: Apache-2.0
"""kubectl changes and removes objects: edit, patch, label, annotate, scale, set, replace, taint, wait, delete."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, config_map, eventually
from tests.e2e.workloads import deployment, node, pod
from tests.skips import needs_kubectl


def test_edit(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nexec sed -i "s/colour: blue/colour: green/" "$1"\n')
    editor.chmod(0o700)
    assert "edited" in kubectl("edit", "configmap", "one", EDITOR=str(editor), KUBE_EDITOR=str(editor))
    assert kubectl("get", "cm", "one", "-o", "jsonpath={.data.colour}") == "green"


@pytest.mark.parametrize(
    ("kind", "patch", "images"),
    [
        (
            "strategic",
            {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "b"}]}}}},
            {"side", "web"},
        ),
        ("merge", {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "b"}]}}}}, {"side"}),
        ("json", [{"op": "replace", "path": "/spec/template/spec/containers/0/name", "value": "renamed"}], {"renamed"}),
    ],
)
def test_patch(kubectl: Kubectl, kind: str, patch: object, images: set[str]) -> None:
    kubectl.apply(deployment("web"))
    kubectl("patch", "deployment", "web", f"--type={kind}", "-p", json.dumps(patch))
    containers = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert {container["name"] for container in containers} == images


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one"))
    kubectl("label", "configmap", "one", "tier=front")
    assert "already has a value" in kubectl.fails("label", "configmap", "one", "tier=back")
    kubectl("label", "configmap", "one", "tier=back", "--overwrite")
    kubectl("annotate", "configmap", "one", "note=some text")
    meta = kubectl.json("get", "configmap", "one")["metadata"]
    assert meta["labels"] == {"tier": "back"}
    assert meta["annotations"]["note"] == "some text"
    kubectl("label", "configmap", "one", "tier-")
    assert "labels" not in kubectl.json("get", "configmap", "one")["metadata"]


def test_invalid_label_is_rejected(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one"))
    patch = '{"metadata": {"labels": {"tier": "not valid!"}}}'
    assert "metadata.labels: Invalid value" in kubectl.fails("patch", "configmap", "one", "-p", patch)


def test_scale(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web", replicas=1))
    kubectl("scale", "deployment", "web", "--replicas=5")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    said = kubectl.fails("scale", "deployment", "web", "--replicas=2", "--current-replicas=1")
    assert "Expected replicas to be 1, was 5" in said


def test_set_image_and_resources(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"))
    kubectl("set", "image", "deployment/web", "web=nginx:1.28")
    kubectl("set", "resources", "deployment", "web", "--limits=cpu=1500m,memory=1Gi")
    kubectl("set", "env", "deployment/web", "COLOUR=blue")
    container = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "nginx:1.28"
    assert container["resources"]["limits"] == {"cpu": "1500m", "memory": "1Gi"}
    assert container["env"] == [{"name": "COLOUR", "value": "blue"}]
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.generation}") == "4"


def test_replace(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    changed = kubectl.json("get", "configmap", "one")
    changed["data"] = {"shape": "round"}
    kubectl("replace", "-f", "-", stdin=json.dumps(changed))
    assert kubectl.json("get", "configmap", "one")["data"] == {"shape": "round"}
    said = kubectl.fails("replace", "-f", "-", stdin=json.dumps(changed))
    assert "the object has been modified; please apply your changes to the latest version and try again" in said


def test_forced_replace_creates_a_new_object(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    before = kubectl("get", "configmap", "one", "-o", "jsonpath={.metadata.uid}")
    kubectl("replace", "--force", "-f", "-", stdin=yaml.safe_dump(config_map("one", colour="green")))
    assert kubectl("get", "configmap", "one", "-o", "jsonpath={.metadata.uid}") != before


def test_cordon_and_taint_a_node(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-node"
    kubectl.apply(node(name))
    kubectl("cordon", name)
    assert "SchedulingDisabled" in kubectl("get", "node", name)
    kubectl("uncordon", name)
    assert "SchedulingDisabled" not in kubectl("get", "node", name)
    kubectl("taint", "node", name, "dedicated=tests:NoSchedule")
    taints = kubectl.json("get", "node", name)["spec"]["taints"]
    assert {"key": "dedicated", "value": "tests", "effect": "NoSchedule"} in taints
    kubectl("taint", "node", name, "dedicated-")
    assert "dedicated" not in kubectl("get", "node", name, "-o", "jsonpath={.spec.taints}")
    assert "Unschedulable:" in kubectl("describe", "node", name)
    kubectl("delete", "node", name)


def test_wait_for_a_condition(kubectl: Kubectl, plane: Plane) -> None:
    kubectl.apply(pod("one"))
    assert "timed out" in kubectl.fails("wait", "pod/one", "--for=condition=Ready", "--timeout=1s")
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/one/status"
    patched = plane.call("PATCH", path, status, Content_Type="application/merge-patch+json")
    assert patched.status == 200, patched.body
    assert "condition met" in kubectl("wait", "pod/one", "--for=condition=Ready", WAIT)


@needs_kubectl(1, 23)
def test_wait_for_a_value(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    kubectl("wait", "configmap/one", "--for=jsonpath={.data.colour}=blue", WAIT)


def test_wait_for_deletion_and_finalizers(kubectl: Kubectl) -> None:
    held = config_map("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl.apply(held)
    kubectl("delete", "configmap", "held", "--wait=false")
    assert kubectl("get", "configmap", "held", "-o", "jsonpath={.metadata.deletionTimestamp}")
    command = kubectl.command("wait", "configmap/held", "--for=delete", WAIT)
    with subprocess.Popen(command, env=kubectl.environment(), stdout=subprocess.PIPE) as waiting:
        kubectl("patch", "configmap", "held", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
        assert waiting.wait(GIVE_UP_SECONDS) == 0
    assert "NotFound" in kubectl.fails("get", "configmap", "held")


def test_delete_with_grace_and_by_force(kubectl: Kubectl) -> None:
    bound = pod("bound")
    bound["spec"]["nodeName"] = "somewhere"
    kubectl.apply(bound, pod("unbound"))
    kubectl("delete", "pod", "unbound")  # no node runs it, so it is deleted immediately
    kubectl("delete", "pod", "bound", "--grace-period=60", "--wait=false")
    meta = kubectl.json("get", "pod", "bound")["metadata"]
    assert meta["deletionGracePeriodSeconds"] == 60
    kubectl("delete", "pod", "bound", "--grace-period=0", "--force")
    assert "NotFound" in kubectl.fails("get", "pod", "bound")


@pytest.mark.parametrize("policy", ["background", "foreground", "orphan"])
def test_delete_with_a_propagation_policy(kubectl: Kubectl, policy: str) -> None:
    kubectl.apply(deployment("web"))
    kubectl("delete", "deployment", "web", f"--cascade={policy}", "--wait=false")
    if policy == "background":
        assert "NotFound" in kubectl.fails("get", "deployment", "web")
        return
    finalizer = {"foreground": "foregroundDeletion", "orphan": "orphan"}[policy]
    said = kubectl.run("get", "deployment", "web", "-o", "jsonpath={.metadata.finalizers}")
    assert finalizer in said.out or "NotFound" in said.err  # a garbage collector may have been here first


def test_delete_all_and_by_label(kubectl: Kubectl) -> None:
    kubectl.apply(pod("a", tier="front"), pod("b", tier="back"), pod("c"))
    kubectl("delete", "pods", "-l", "tier=front")
    assert kubectl("get", "pods", "-o", "name").split() == ["pod/b", "pod/c"]
    kubectl("delete", "pods", "--all")
    assert kubectl("get", "pods", "-o", "name") == ""


def test_deleted_namespace_is_terminating(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-gone"
    kubectl("create", "namespace", name)
    kubectl("delete", "namespace", name, "--wait=false")

    def is_ending() -> bool:
        said = kubectl.run("get", "namespace", name, "-o", "jsonpath={.status.phase}")
        return said.out == "Terminating" or "NotFound" in said.err

    eventually(is_ending)
    said = kubectl.fails("create", "configmap", "late", "-n", name)
    assert "being terminated" in said or "not found" in said


def test_rollouts_are_paused_resumed_and_restarted(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"))
    kubectl("rollout", "pause", "deployment/web")
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.paused}") == "true"
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")
    annotations = kubectl.json("get", "deployment", "web")["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations


def test_autoscale(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"))
    kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=80")
    spec = kubectl.json("get", "hpa", "web")["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 5)
