# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling by the real program: the pods of a Job run together or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.conftest import MakePlane, make_namespace
from tests.e2e.manager_process import free_port
from tests.e2e.plane import Plane, eventually
from tests.e2e.test_separate_components import Component

GATES = "GenericWorkload=true,WorkloadWithJob=true"
MERGE = {"Content-Type": "application/merge-patch+json"}


def gang_job(parallelism: int, cpu: int) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {"name": "train"},
        "spec": {
            "parallelism": parallelism,
            "completions": parallelism,
            "scheduling": {"schedulingPolicy": {"gang": {}}},
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
    }


def condition_of_group(plane: Plane, namespace: str) -> dict[str, Any]:
    groups = plane.get(f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups")["items"]
    conditions = [one for group in groups for one in group.get("status", {}).get("conditions", [])]
    return next((one for one in conditions if one["type"] == "PodGroupInitiallyScheduled"), {})


def test_pods_of_a_job_get_nodes_together(make_plane: MakePlane) -> None:
    flags = ("--ephemeral", "--nodes", "2", "--feature-gates", GATES)
    plane = make_plane(*flags, "--runtime-config", "scheduling.k8s.io/v1beta1=true")
    plane.start()
    namespace = make_namespace(plane, "gangs")
    nodes = eventually(lambda: plane.get("/api/v1/nodes")["items"])
    cpu = int(nodes[0]["status"]["allocatable"]["cpu"]) // 2 + 1  # one pod fits on a node
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    plane.create(jobs, gang_job(3, cpu))
    told = eventually(lambda: condition_of_group(plane, namespace))
    assert (told["status"], told["reason"]) == ("False", "Unschedulable")
    assert told["message"].startswith("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
    pods = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert [one["spec"].get("nodeName") for one in pods] == [None, None, None]
    plane.call("PATCH", f"{jobs}/train", {"spec": {"parallelism": 2}}, **MERGE)
    eventually(lambda: condition_of_group(plane, namespace)["status"] == "True")
    eventually(lambda: len({one["spec"].get("nodeName") for one in running(plane, namespace)}) == 2)


def running(plane: Plane, namespace: str) -> list[dict[str, Any]]:
    pods = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [one for one in pods if one["status"].get("phase") == "Running"]


def test_separate_scheduler_binds_a_gang_or_nothing(make_plane: MakePlane, tmp_path: Path) -> None:
    served = ("--feature-gates", "GenericWorkload=true", "--runtime-config", "scheduling.k8s.io/v1beta1=true")
    own = ("--store", "memory", "--bind-address", "127.0.0.1", "--cert-dir", str(tmp_path / "pki"))
    plane = make_plane(*own, *served, command="apiserver")
    plane.start()
    namespace = make_namespace(plane, "gangs")
    add_node(plane, "one")
    port = ("--bind-address=127.0.0.1", "--leader-elect=false", f"--secure-port={free_port()}", "--cert-dir=.")
    flags = (f"--kubeconfig={plane.kubeconfig}", *port, "--feature-gates=GenericWorkload=true")
    scheduler = Component(tmp_path / "scheduler", "scheduler", *flags)
    try:
        scheduler.ready()
        groups = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
        policy = {"schedulingPolicy": {"gang": {"minCount": 3}}}
        plane.create(groups, {"metadata": {"name": "gang"}, "spec": policy})
        for name in ("a", "b", "c"):
            container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
            spec = {"containers": [container], "schedulingGroup": {"podGroupName": "gang"}}
            plane.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: condition_of_group(plane, namespace).get("reason") == "Unschedulable")
        assert nodes_of(plane, namespace) == {None}
        add_node(plane, "two")
        eventually(lambda: nodes_of(plane, namespace) == {"one", "two"})
    finally:
        assert scheduler.stop() == 0


def nodes_of(plane: Plane, namespace: str) -> set[str | None]:
    pods = plane.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {one["spec"].get("nodeName") for one in pods}


def add_node(plane: Plane, name: str) -> None:
    """Add a ready node for two of the pods."""
    plane.create("/api/v1/nodes", {"metadata": {"name": name}})
    amounts = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    body = {"status": {"allocatable": amounts, "capacity": amounts}}
    plane.call("PATCH", f"/api/v1/nodes/{name}/status", body, **MERGE)
    plane.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, **MERGE)
