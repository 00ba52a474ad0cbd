# SPDX-License-Identifier: Apache-2.0
"""Admission tests of pods: account, token, priority, tolerations, runtime class, topology."""

from __future__ import annotations

import pytest

from kubeloop.api import errors
from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Binding

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


# -- service account ---------------------------------------------------------------------------------------------------


def test_pod_without_an_account_gets_the_default_one(pod):
    spec = pod()["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"


def test_pods_of_one_account_have_the_same_token_volume_name(pod):
    assert pod()["spec"]["volumes"] == pod()["spec"]["volumes"]


def test_every_container_mounts_the_token_volume(pod):
    made = pod(
        initContainers=[{"name": "prepare", "image": "busybox"}],
        containers=[{"name": "web", "image": "nginx"}, {"name": "log", "image": "fluentd"}],
    )["spec"]
    volume = made["volumes"][-1]
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == len("kube-api-access-") + 5
    assert volume["projected"] == {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}
                    ]
                }
            },
        ],
    }
    mount = {"mountPath": TOKEN_PATH, "name": volume["name"], "readOnly": True}
    for container in made["initContainers"] + made["containers"]:
        assert container["volumeMounts"] == [mount]


def test_existing_mount_at_the_token_path_is_kept(pod):
    own = [{"name": "mine", "mountPath": TOKEN_PATH}]
    spec = pod(
        containers=[{"name": "web", "image": "nginx", "volumeMounts": own}],
        volumes=[{"name": "mine", "emptyDir": {}}],
    )["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == ["mine"]
    assert spec["containers"][0]["volumeMounts"] == own


def test_existing_token_volume_is_used(pod):
    spec = pod(volumes=[{"name": "kube-api-access-given", "emptyDir": {}}])["spec"]
    assert len(spec["volumes"]) == 1
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-given"


@pytest.mark.parametrize(
    ("of_pod", "of_account", "mounted"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False), (None, True, True)],
)
def test_automount_of_the_pod_overrides_the_account(cluster, pod, of_pod, of_account, mounted):
    cluster.add("serviceaccounts", "robot", "shop", automountServiceAccountToken=of_account)
    spec = pod(serviceAccountName="robot", automountServiceAccountToken=of_pod)["spec"]
    assert ("volumes" in spec) is mounted


def test_pod_gets_its_accounts_pull_secrets_unless_set(cluster, pod):
    cluster.add("serviceaccounts", "robot", "shop", imagePullSecrets=[{"name": "registry"}])
    assert pod(serviceAccountName="robot")["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    own = [{"name": "own"}]
    assert pod(serviceAccountName="robot", imagePullSecrets=own)["spec"]["imagePullSecrets"] == own


def test_pod_with_a_missing_account_is_rejected(pod):
    with pytest.raises(errors.Forbidden) as caught:
        pod(serviceAccountName="ghost")
    assert caught.value.message == (
        'pods "x" is forbidden: error looking up service account shop/ghost: serviceaccount "ghost" not found'
    )


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
        ({"volumes": [{"name": "s", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
        ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
        (
            {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "s"}}]}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "c", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]},
            "a mirror pod may not reference secrets",
        ),
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "a mirror pod may not use ServiceAccountToken volume projections",
        ),
    ],
)
def test_mirror_pod_may_not_reference_api_objects(pod, spec, why):
    with pytest.raises(errors.Forbidden) as caught:
        pod(metadata={"annotations": {"kubernetes.io/config.mirror": "hash"}}, **spec)
    assert caught.value.message == f'pods "x" is forbidden: {why}'


def test_mirror_pod_is_unchanged(pod):
    spec = pod(metadata={"annotations": {"kubernetes.io/config.mirror": "hash"}})["spec"]
    assert "serviceAccountName" not in spec
    assert "volumes" not in spec


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"volumes": [{"name": "v", "secret": {"secretName": "b"}}]}, 'volume with secret.secretName="b"'),
        (
            {"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "b"}}]}]},
            'init container i with envFrom referencing secret.secretName="b"',
        ),
        (
            {
                "containers": [
                    {"name": "c", "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "b", "key": "k"}}}]}
                ]
            },
            'container c with envVar E referencing secret.secretName="b"',
        ),
    ],
)
def test_account_can_restrict_its_pods_to_listed_secrets(cluster, pod, spec, what):
    cluster.add(
        "serviceaccounts",
        "strict",
        "shop",
        {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        secrets=[{"name": "a"}],
    )
    pod(serviceAccountName="strict", volumes=[{"name": "v", "secret": {"secretName": "a"}}])
    with pytest.raises(errors.Forbidden) as caught:
        pod(serviceAccountName="strict", **spec)
    assert caught.value.message == (
        f'pods "x" is forbidden: {what} is not allowed because service account strict does not reference that secret'
    )


def test_restriction_applies_to_pull_secrets_and_ephemeral_containers(cluster, pod, writes):
    enforce = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    cluster.add("serviceaccounts", "strict", "shop", enforce)
    with pytest.raises(errors.Forbidden, match=r'imagePullSecrets\[0\].name="b" is not allowed'):
        pod(serviceAccountName="strict", imagePullSecrets=[{"name": "b"}])
    debugger = {"name": "debug", "envFrom": [{"secretRef": {"name": "b"}}]}
    spec = {"serviceAccountName": "strict", "ephemeralContainers": [debugger]}
    with pytest.raises(
        errors.Forbidden, match=r'ephemeral container debug with envFrom referencing secret.secretName="b"'
    ):
        writes.update("pods", "shop", {}, {"spec": spec}, subresource="ephemeralcontainers")


# -- priority ----------------------------------------------------------------------------------------------------------


def test_a_pod_without_a_class_has_priority_zero(pod):
    spec = pod()["spec"]
    assert spec["priority"] == 0
    assert spec["preemptionPolicy"] == "PreemptLowerPriority"
    assert "priorityClassName" not in spec


def test_priority_class_sets_priority_and_preemption_policy(cluster, pod):
    cluster.add("priorityclasses", "patient", value=50, preemptionPolicy="Never")
    spec = pod(priorityClassName="patient")["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (50, "Never")


def test_lowest_default_class_is_used_and_updated(cluster, pod):
    assert pod()["spec"]["priority"] == 0
    cluster.add("priorityclasses", "high", value=20, globalDefault=True, preemptionPolicy="PreemptLowerPriority")
    cluster.add("priorityclasses", "low", value=10, globalDefault=True, preemptionPolicy="PreemptLowerPriority")
    spec = pod()["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("low", 10)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "ghost"}, "no PriorityClass with name ghost was found"),
        (
            {"priority": 3},
            "the integer value of priority (3) must not be provided in pod spec; "
            "priority admission controller computed 0 from the given PriorityClass name",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
        ),
    ],
)
def test_explicit_priority_is_rejected(pod, spec, why):
    with pytest.raises(errors.Forbidden) as caught:
        pod(**spec)
    assert caught.value.message == f'pods "x" is forbidden: {why}'


def test_update_without_priority_keeps_it(writes):
    old = {"spec": {"priority": 7, "preemptionPolicy": "Never"}}
    spec = writes.update("pods", "shop", old, {"spec": {"nodeName": "n"}})["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


def test_only_one_priority_class_can_be_the_default(cluster, writes):
    cluster.add("priorityclasses", "first", value=1, globalDefault=True)
    with pytest.raises(errors.Forbidden) as caught:
        writes.create("priorityclasses", name="second", value=2, globalDefault=True)
    assert caught.value.message == (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: '
        "PriorityClass first is already marked as default. Only one default can exist"
    )
    writes.create("priorityclasses", name="third", value=3)


def test_the_default_priority_class_can_be_updated(cluster, writes):
    cluster.add("priorityclasses", "x", value=1, globalDefault=True)
    fields = {"value": 1, "globalDefault": True}
    writes.update("priorityclasses", "", dict(fields), {**fields, "description": "changed"})


# -- tolerations -------------------------------------------------------------------------------------------------------


def _toleration(key):
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], [UNREACHABLE]),
        ([{"key": UNREACHABLE, "operator": "Exists"}], [NOT_READY]),
        ([{"key": NOT_READY, "operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    ],
)
def test_default_not_ready_tolerations_are_five_minutes(pod, own, added):
    assert pod(tolerations=own)["spec"]["tolerations"] == own + [_toleration(key) for key in added]


def test_tolerations_are_added_on_update(writes):
    spec = writes.update("pods", "shop", {}, {"spec": {}})["spec"]
    assert [toleration["key"] for toleration in spec["tolerations"]] == [NOT_READY, UNREACHABLE]


# -- runtime class -----------------------------------------------------------------------------------------------------


def test_runtime_class_adds_overhead_and_scheduling(cluster, pod):
    cluster.add(
        "runtimeclasses",
        "vm",
        handler="kata",
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    )
    spec = pod(runtimeClassName="vm", nodeSelector={"disk": "ssd"})["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"disk": "ssd", "kata": "yes"}
    assert spec["tolerations"][-1] == {"key": "kata", "operator": "Exists"}


def test_toleration_covered_by_a_runtime_class_is_merged(cluster, pod):
    cluster.add("runtimeclasses", "vm", handler="kata", scheduling={"tolerations": [{"operator": "Exists"}]})
    own = [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]
    assert pod(runtimeClassName="vm", tolerations=own)["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "ghost"}, 'pod rejected: RuntimeClass "ghost" not found'),
        (
            {"runtimeClassName": "vm", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "vm", "nodeSelector": {"kata": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; pod.spec.nodeSelector[kata] = no",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ],
)
def test_pod_that_contradicts_its_runtime_class_is_rejected(cluster, pod, spec, why):
    cluster.add(
        "runtimeclasses",
        "vm",
        handler="kata",
        overhead={"podFixed": {"cpu": "250m"}},
        scheduling={"nodeSelector": {"kata": "yes"}},
    )
    with pytest.raises(errors.Forbidden) as caught:
        pod(**spec)
    assert caught.value.message == f'pods "x" is forbidden: {why}'


# -- topology ----------------------------------------------------------------------------------------------------------


def test_pod_gets_the_topology_labels_of_its_node(cluster, pod, writes):
    labels = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu", "disk": "ssd"}
    cluster.add("nodes", "n1", metadata={"labels": labels})
    copied = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"}
    made = pod(nodeName="n1", metadata={"labels": {"app": "web", "topology.kubernetes.io/zone": "lie"}})
    assert made["metadata"]["labels"] == {"app": "web", **copied}
    binding = from_plain({"metadata": {"name": "x"}, "target": {"kind": "Node", "name": "n1"}}, Binding)
    assert writes.post("pods", "binding", "shop", binding)["metadata"]["labels"] == copied


def test_pod_on_an_unknown_node_is_unchanged(pod):
    assert "labels" not in pod(nodeName="ghost")["metadata"]


def test_system_priority_classes_are_protected(writes):
    with pytest.raises(errors.Forbidden) as caught:
        writes.delete("priorityclasses", "system-node-critical")
    assert caught.value.message == (
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
        "this is a system priority class and cannot be deleted"
    )
    writes.delete("priorityclasses", "mine")
