# SPDX-License-Identifier: Apache-2.0
"""Tests of reading with kubectl: discovery, get in every format, describe, explain, watch."""

from __future__ import annotations

import subprocess

import yaml

from tests.e2e.kubectl import Kubectl
from tests.e2e.plane import config_map
from tests.e2e.workloads import deployment, pod
from tests.skips import needs_kubectl


def test_version_names_the_server(kubectl: Kubectl) -> None:
    found = kubectl.json("version")["serverVersion"]
    assert (found["major"], found["minor"]) == ("1", "37")


def test_api_resources_lists_every_kind_with_its_short_names(kubectl: Kubectl) -> None:
    lines = kubectl("api-resources", "--no-headers").splitlines()
    kinds = {line.split()[-1]: line.split() for line in lines}
    assert kinds["Deployment"][:2] == ["deployments", "deploy"]
    assert kinds["CustomResourceDefinition"][0] == "customresourcedefinitions"
    assert len(kinds) > 50


def test_api_resources_by_group_and_verb(kubectl: Kubectl) -> None:
    names = kubectl("api-resources", "--api-group=apps", "--verbs=list,create", "-o", "name").split()
    wanted = ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]
    assert sorted(names) == [f"{name}.apps" for name in wanted]


def test_api_versions(kubectl: Kubectl) -> None:
    assert {"v1", "apps/v1", "batch/v1", "networking.k8s.io/v1"} <= set(kubectl("api-versions").split())


def test_readyz_lists_its_checks(kubectl: Kubectl) -> None:
    said = kubectl("get", "--raw", "/readyz?verbose")
    assert "[+]ping ok" in said
    assert said.rstrip().endswith("readyz check passed")


def test_get_shows_the_columns_of_the_kind(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web", replicas=3))
    header, row = kubectl("get", "deployment").splitlines()
    assert header.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:2] == ["web", "0/3"]
    header, row = kubectl("get", "deploy", "web", "-o", "wide").splitlines()
    assert header.split()[5:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert row.split()[5:] == ["web", "nginx:1.27", "app=web"]


def test_get_in_every_form(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    assert kubectl("get", "cm", "one", "-o", "name").strip() == "configmap/one"
    assert yaml.safe_load(kubectl("get", "cm", "one", "-o", "yaml"))["data"] == {"colour": "blue"}
    assert kubectl.json("get", "cm", "one")["kind"] == "ConfigMap"
    assert kubectl("get", "cm", "one", "-o", "jsonpath={.data.colour}") == "blue"
    assert kubectl("get", "cm", "one", "-o", "go-template={{.data.colour}}") == "blue"
    columns = kubectl("get", "cm", "one", "-o", "custom-columns=N:.metadata.name,C:.data.colour").splitlines()
    assert [line.split() for line in columns] == [["N", "C"], ["one", "blue"]]


def test_get_several_kinds_at_once(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one"), deployment("web"))
    names = kubectl("get", "configmap/one", "deployment/web", "-o", "name")
    assert names.split() == ["configmap/one", "deployment.apps/web"]


def test_get_by_label(kubectl: Kubectl) -> None:
    kubectl.apply(pod("a", tier="front"), pod("b", tier="back"), pod("c"))

    def names(selector: str) -> list[str]:
        return kubectl("get", "pods", "-l", selector, "-o", "jsonpath={.items[*].metadata.name}").split()

    assert names("tier=front") == ["a"]
    assert names("tier") == ["a", "b"]
    assert names("!tier") == ["c"]
    assert names("tier notin (front)") == ["b", "c"]
    assert kubectl("get", "pods", "-L", "tier").splitlines()[0].split()[-1] == "TIER"


def test_get_by_field(kubectl: Kubectl) -> None:
    kubectl.apply(pod("a"), pod("b"))
    selector = "--field-selector=metadata.name!=a,status.phase=Pending"
    assert kubectl("get", "pods", selector, "-o", "name").split() == ["pod/b"]
    assert "field label not supported" in kubectl.fails("get", "pods", "--field-selector=spec.shape=round")


def test_get_sorts_and_pages(kubectl: Kubectl) -> None:
    kubectl.apply(*(config_map(f"m{number}", order=str(9 - number)) for number in range(5)))
    names = kubectl("get", "cm", "--chunk-size=2", "--sort-by=.data.order", "-o", "name").split()
    assert [name for name in names if "/m" in name] == [f"configmap/m{number}" for number in (4, 3, 2, 1, 0)]


def test_get_of_all_namespaces(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("here"))
    lines = kubectl("get", "configmaps", "--all-namespaces").splitlines()
    assert lines[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert [kubectl.namespace, "here"] in [line.split()[:2] for line in lines]


def test_missing_object_and_unknown_kind_are_reported(kubectl: Kubectl) -> None:
    assert kubectl.fails("get", "pod", "none").strip() == 'Error from server (NotFound): pods "none" not found'
    assert 'the server doesn\'t have a resource type "unicorns"' in kubectl.fails("get", "unicorns")
    assert kubectl("get", "pod", "none", "--ignore-not-found") == ""


def test_describe(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web"), config_map("one", colour="blue"), pod("a"))
    said = kubectl("describe", "deployment", "web")
    assert "nginx:1.27" in said
    assert "app=web" in said
    assert "blue" in kubectl("describe", "configmap", "one")
    assert "Status:" in kubectl("describe", "pod", "a")
    assert "Active" in kubectl("describe", "namespace", kubectl.namespace)


def test_describe_shows_events(kubectl: Kubectl) -> None:
    kubectl.apply(pod("a"))
    uid = kubectl("get", "pod", "a", "-o", "jsonpath={.metadata.uid}")
    involved = {"apiVersion": "v1", "kind": "Pod", "name": "a", "namespace": kubectl.namespace, "uid": uid}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a.1"}, "involvedObject": involved}
    kubectl.apply({**event, "reason": "Tested", "message": "looked at it", "type": "Normal", "count": 1})
    assert "looked at it" in kubectl("describe", "pod", "a")
    assert "Tested" in kubectl("get", "events")
    assert "Tested" in kubectl("get", "events", f"--field-selector=involvedObject.uid={uid}")


def test_explain(kubectl: Kubectl) -> None:
    said = kubectl("explain", "pods.spec.containers")
    assert "imagePullPolicy" in said
    assert "containers" in said
    assert "replicas" in kubectl("explain", "deployment.spec")
    assert "rollingUpdate" in kubectl("explain", "deployment", "--recursive")
    assert 'field "shape" does not exist' in kubectl.fails("explain", "pods.spec.shape")


def test_get_watch_prints_events(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one", colour="blue"))
    command = kubectl.command("get", "configmap", "one", "--watch", "-o", "jsonpath={.data.colour}{'\\n'}")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=kubectl.environment(), text=True) as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline().strip() == "blue"
            kubectl("patch", "configmap", "one", "--type=merge", "-p", '{"data": {"colour": "green"}}')
            assert watching.stdout.readline().strip() == "green"
        finally:
            watching.kill()


def test_get_watch_ends_at_its_timeout(kubectl: Kubectl) -> None:
    ended = kubectl.run("get", "configmaps", "--watch", "--request-timeout=1s")  # raises if it does not end
    assert (ended.code, ended.err) == (0, "")


@needs_kubectl(1, 28)
def test_whoami(kubectl: Kubectl) -> None:
    assert kubectl.json("auth", "whoami")["status"]["userInfo"]["username"]


def test_can_i(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "delete", "nodes").strip().endswith("yes")


@needs_kubectl(1, 24)
def test_completion_lists_names_and_kinds(kubectl: Kubectl) -> None:
    kubectl.apply(config_map("one"), config_map("other"))
    assert {"one", "other"} <= set(kubectl("__complete", "get", "configmap", "o").split())
    assert "deployments.apps" in kubectl("__complete", "get", "deploy").split()
