# SPDX-License-Identifier: Apache-2.0
"""Tests of administrative limits with kubectl: limit ranges, quotas, pod security, dry runs."""

from __future__ import annotations

from typing import Any

import yaml

from tests.e2e.kubectl import WAIT, Kubectl


def pod(name: str, **container: Any) -> str:
    running = {"name": "c", "image": "registry.example/app:1", **container}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [running]}}
    return yaml.safe_dump(manifest)


def asking(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


def wait_until_counted(kubectl: Kubectl, quota: str) -> None:
    kubectl("wait", f"quota/{quota}", "--for=jsonpath={.status.used}", WAIT)


def test_limit_range_sets_defaults_and_rejects(kubectl: Kubectl) -> None:
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "bounds"},
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "default": {"cpu": "500m"},
                        "defaultRequest": {"cpu": "250m"},
                        "max": {"cpu": "1"},
                    }
                ]
            },
        }
    )
    kubectl("apply", "-f", "-", stdin=pod("plain"))
    (container,) = kubectl.json("get", "pod", "plain")["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "500m"}, "requests": {"cpu": "250m"}}
    told = kubectl.fails("apply", "-f", "-", stdin=pod("large", resources={"limits": {"cpu": "2"}}))
    assert "maximum cpu usage per Container is 1, but limit is 2" in told


def test_pod_security_level_of_a_namespace_is_enforced(kubectl: Kubectl) -> None:
    privileged = pod("strong", securityContext={"privileged": True})
    kubectl("apply", "-f", "-", stdin=privileged)
    kubectl("delete", "pod", "strong", "--force", "--grace-period=0")
    said = kubectl.run(
        "label",
        "namespace",
        kubectl.namespace,
        "pod-security.kubernetes.io/enforce=baseline",
        "pod-security.kubernetes.io/warn=restricted",
    )
    assert said.code == 0
    told = kubectl.fails("apply", "-f", "-", stdin=privileged)
    assert (
        'pods "strong" is forbidden: violates PodSecurity "baseline:latest": privileged '
        '(container "c" must not set securityContext.privileged=true)'
    ) in told
    said = kubectl.run("apply", "-f", "-", stdin=pod("plain"))
    assert said.code == 0
    assert 'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in said.err


def test_stricter_level_warns_about_violating_pods(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=pod("strong", securityContext={"privileged": True}))
    said = kubectl.run(
        "label", "--dry-run=server", "namespace", kubectl.namespace, "pod-security.kubernetes.io/enforce=baseline"
    )
    assert said.code == 0
    assert f'existing pods in namespace "{kubectl.namespace}" violate the new PodSecurity enforce level' in said.err
    labels = kubectl.json("get", "namespace", kubectl.namespace)["metadata"]["labels"]
    assert "pod-security.kubernetes.io/enforce" not in labels


def test_invalid_manifests_are_rejected_with_all_field_paths(kubectl: Kubectl) -> None:
    bad = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "Web"},
        "spec": {
            "replicas": -1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "other"}},
                "spec": {"containers": [{"name": "C", "image": ""}]},
            },
        },
    }
    told = kubectl.fails("apply", "-f", "-", stdin=yaml.safe_dump(bad))
    for field in (
        "metadata.name: Invalid value",
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        "spec.template.metadata.labels: Invalid value",
        "spec.template.spec.containers[0].name: Invalid value",
        "spec.template.spec.containers[0].image: Required value",
    ):
        assert field in told
    assert kubectl("get", "deployments", "-o", "name") == ""


def test_immutable_fields_are_rejected(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=registry.example/app:1")
    told = kubectl.fails(
        "patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"selector":{"matchLabels":{"app":"x"}}}}'
    )
    assert "field is immutable" in told
    kubectl("create", "secret", "generic", "sealed", "--from-literal=a=b")
    kubectl("patch", "secret", "sealed", "-p", '{"immutable":true}')
    assert "field is immutable when `immutable` is set" in kubectl.fails(
        "patch", "secret", "sealed", "-p", '{"stringData":{"a":"c"}}'
    )


def test_quota_counts_and_rejects_excess(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "small", "--hard=pods=2,requests.cpu=1,count/configmaps=3")
    wait_until_counted(kubectl, "small")
    kubectl("apply", "-f", "-", stdin=pod("one", **asking(cpu="600m")))
    told = kubectl.fails("apply", "-f", "-", stdin=pod("two", **asking(cpu="500m")))
    assert (
        'pods "two" is forbidden: exceeded quota: small, requested: requests.cpu=500m, used: requests.cpu=600m, '
        "limited: requests.cpu=1"
    ) in told
    told = kubectl.fails("apply", "-f", "-", stdin=pod("two"))
    assert "failed quota: small: must specify requests.cpu for: c" in told
    used = kubectl.json("get", "quota", "small")["status"]["used"]
    assert (used["pods"], used["requests.cpu"]) == ("1", "600m")
    kubectl("apply", "-f", "-", stdin=pod("two", **asking(cpu="400m")))
    assert "exceeded quota" in kubectl.fails("apply", "-f", "-", stdin=pod("three", **asking(cpu="0")))


def test_dry_run_is_checked_against_quota_without_charging(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "one", "--hard=count/secrets=1")
    wait_until_counted(kubectl, "one")
    for _ in range(2):
        kubectl("create", "secret", "generic", "tried", "--dry-run=server")
    kubectl("create", "secret", "generic", "made")
    assert "exceeded quota" in kubectl.fails("create", "secret", "generic", "more", "--dry-run=server")


def test_deleted_objects_free_quota(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "one", "--hard=count/secrets=1")
    wait_until_counted(kubectl, "one")
    kubectl("create", "secret", "generic", "first")
    kubectl("delete", "secret", "first")
    kubectl("wait", "quota/one", "--for=jsonpath={.status.used.count/secrets}=0", WAIT)
    kubectl("create", "secret", "generic", "second")
