# SPDX-License-Identifier: Apache-2.0
"""Validation tests of pods: one invalid field each, with its path."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.manifests import altered, create_problems, update_problems

POD: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "app:1"}]}}


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "app:1"}], **spec}}


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "app:1", **fields}]}}


def problems(manifest: dict[str, Any]) -> list[str]:
    return create_problems("pods", manifest)


@pytest.mark.parametrize(
    "good",
    [
        POD,
        pod(initContainers=[{"name": "i", "image": "x", "restartPolicy": "Always"}]),
        pod(volumes=[{"name": "v"}], nodeSelector={"a": "b"}, hostNetwork=True),
        pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}),
        pod(os={"name": "windows"}, tolerations=[{"operator": "Exists"}]),
        container(ports=[{"containerPort": 80, "name": "web"}], env=[{"name": "A.b-c", "value": "1"}]),
        container(resources={"limits": {"cpu": "1", "example.com/gpu": "1"}}),
        container(livenessProbe={"httpGet": {"port": "web"}}, lifecycle={"preStop": {"sleep": {"seconds": 5}}}),
    ],
)
def test_valid_pods_pass(good: dict[str, Any]) -> None:
    assert problems(good) == []


CONTAINER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "name: Required value"),
    ({"image": ""}, "image: Required value"),
    ({"image": " x"}, 'image: Invalid value: " x": must not have leading or trailing whitespace'),
    ({"imagePullPolicy": "P"}, 'imagePullPolicy: Unsupported value: "P": supported values: '
        '"Always", "IfNotPresent", "Never"'),
    ({"terminationMessagePolicy": "T"}, 'terminationMessagePolicy: Unsupported value: "T": supported values: '
        '"File", "FallbackToLogsOnError"'),
    ({"ports": [{}]}, "ports[0].containerPort: Required value"),
    ({"ports": [{"containerPort": 1, "protocol": "Z"}]},
        'ports[0].protocol: Unsupported value: "Z": supported values: "SCTP", "TCP", "UDP"'),
    ({"ports": [{"containerPort": 70000}]},
        "ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"),
    ({"ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]},
        'ports[1].hostPort: Duplicate value: "TCP//5"'),
    ({"env": [{"name": ""}]}, "env[0].name: Required value"),
    ({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        'env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'),
    ({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.containers"}}}]},
        'env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.containers": '
        "error converting fieldPath: field label not supported: spec.containers"),
    ({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]},
        'env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": '
        "only divisor's values 1m and 1 are supported with the cpu resource"),
    ({"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "A", "volumeName": "v", "path": "p"}}}]},
        'env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"'),
    ({"envFrom": [{}]}, 'envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'),
    ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, 'volumeMounts[0].name: Not found: "v"'),
    ({"volumeDevices": [{"name": "v", "devicePath": "/v"}]}, 'volumeDevices[0].name: Not found: "v"'),
    ({"livenessProbe": {}}, "livenessProbe: Required value: must specify a handler type"),
    ({"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
        "livenessProbe.successThreshold: Invalid value: 2: must be 1"),
    ({"livenessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}},
        "livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"),
    ({"readinessProbe": {"tcpSocket": {"port": 0}}},
        "readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive"),
    ({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}, "lifecycle.preStop.sleep: Invalid value: 31: "
        "must be non-negative and less than terminationGracePeriodSeconds (30)"),
    ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
        'resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'),
    ({"resources": {"requests": {"cpu": "-1"}}},
        'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'),
    ({"resources": {"requests": {"example.com/gpu": "1"}}},
        "resources.limits: Required value: Limit must be set for non overcommitable resources"),
    ({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}, "resources: Forbidden: HugePages require cpu or memory"),
    ({"resources": {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}},
        'resources.limits[hugepages-2Mi]: Invalid value: "3Mi": '
        "3Mi is not positive integer multiple of hugepages-2Mi"),
    ({"resources": {"claims": [{"name": "x"}]}}, 'resources.claims[0]: Not found: "x": '
        "must be one of the names in pod.spec.resourceClaims which is empty"),
    ({"resizePolicy": [{"resourceName": "disk", "restartPolicy": "NotRequired"}]},
        'resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"'),
    ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]},
        "restartPolicy: Required value: must specify restartPolicy when restart rules are used"),
    ({"securityContext": {"runAsUser": -1}},
        "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"),
    ({"securityContext": {"procMount": "Unmasked"}}, 'securityContext.procMount: Invalid value: "Unmasked": '
        "`hostUsers` must be false to use `Unmasked`"),
    ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}}},
        "securityContext.seccompProfile.localhostProfile: Invalid value: "
        '{"Type":"RuntimeDefault","LocalhostProfile":"x"}: can only be set when seccomp type is Localhost'),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), CONTAINER_FAULTS)
def test_invalid_containers_are_reported(fault: dict[str, Any], problem: str) -> None:
    assert f"spec.containers[0].{problem}" in problems(container(**fault))


SPEC_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"containers": []}, "containers: Required value"),
    ({"restartPolicy": "X"}, 'restartPolicy: Unsupported value: "X": supported values: '
        '"Always", "OnFailure", "Never"'),
    ({"dnsPolicy": "None"}, "dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"),
    ({"dnsConfig": {"nameservers": ["x"]}}, 'dnsConfig.nameservers[0]: Invalid value: "x": '
        "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ({"hostAliases": [{"ip": "010.1.1.1"}]}, 'hostAliases[0].ip: Invalid value: "010.1.1.1": '
        "must not have leading 0s"),
    ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds: Invalid value: 0: "
        "must be between 1 and 2147483647, inclusive"),
    ({"shareProcessNamespace": True, "hostPID": True}, "shareProcessNamespace: Invalid value: true: "
        "ShareProcessNamespace and HostPID cannot both be enabled"),
    ({"hostUsers": False, "hostNetwork": True}, "hostNetwork: Forbidden: when `hostUsers` is false"),
    ({"os": {"name": "plan9"}}, 'os: Unsupported value: "plan9": supported values: "linux", "windows"'),
    ({"os": {"name": "windows"}, "hostPID": True}, "hostPID: Forbidden: cannot be set for a windows pod"),
    ({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}},
        "securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"),
    ({"nodeName": "n", "schedulingGates": [{"name": "a"}]},
        "nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"),
    ({"ephemeralContainers": [{"name": "e", "image": "x"}]}, "ephemeralContainers: Forbidden: cannot be set on create"),
    ({"initContainers": [{"name": "c", "image": "x"}]}, 'initContainers[0].name: Duplicate value: "c"'),
    ({"initContainers": [{"name": "i", "image": "x", "lifecycle": {}}]},
        "initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always"),
    ({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
        'tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'),
    ({"tolerations": [{"key": "a", "tolerationSeconds": 1, "effect": "NoSchedule"}]},
        'tolerations[0].effect: Invalid value: "NoSchedule": '
        "effect must be 'NoExecute' when `tolerationSeconds` is set"),
    ({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
        "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
    ({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}},
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: "
        "must have at least one node selector term"),
    ({"resourceClaims": [{"name": "x"}]}, 'resourceClaims[0]: Invalid value: {"Name":"x","ResourceClaimName":null,'
        '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'),
    ({"securityContext": {"sysctls": [{"name": "net.a", "value": "1"}]}, "hostNetwork": True},
        'securityContext.sysctls[0].name: Invalid value: "net.a": may not be specified when \'hostNetwork\' is true'),
    ({"resources": {"requests": {"cpu": "1"}}, "containers": [
        {"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}]},
        'resources.requests[cpu]: Invalid value: "1": '
        "must be greater than or equal to aggregate container requests of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "problem"), SPEC_FAULTS)
def test_invalid_specs_are_reported(fault: dict[str, Any], problem: str) -> None:
    assert f"spec.{problem}" in problems(pod(**fault))


VOLUME_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"emptyDir": {"sizeLimit": "-1"}}, ".emptyDir.sizeLimit: Forbidden: "
        "SizeLimit field must be a valid resource quantity"),
    ({"emptyDir": {}, "hostPath": {"path": "/x"}}, ".hostPath: Forbidden: may not specify more than 1 volume type"),
    ({"hostPath": {"path": "/a/../b"}}, ".hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"),
    ({"nfs": {"server": "s", "path": "rel"}}, '.nfs.path: Invalid value: "rel": must be an absolute path'),
    ({"secret": {}}, ".secret.secretName: Required value"),
    ({"secret": {"secretName": "s", "defaultMode": 512}}, ".secret.defaultMode: Invalid value: 512: "
        "must be a number between 0 and 0777 (octal), both inclusive"),
    ({"configMap": {"name": "m", "items": [{"key": "a", "path": "/a"}]}},
        '.configMap.items[0].path: Invalid value: "/a": must be a relative path'),
    ({"iscsi": {"targetPortal": "t", "iqn": "bad", "lun": 1}},
        '.iscsi.iqn: Invalid value: "bad": must be valid format starting with iqn, eui, or naa'),
    ({"csi": {}}, ".csi.driver: Required value"),
    ({"ephemeral": {}}, ".ephemeral.volumeClaimTemplate: Required value"),
    ({"gcePersistentDisk": {}}, ".persistentDisk.pdName: Required value"),
    ({"projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}},
        ".projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"),
    ({"downwardAPI": {"items": [{"path": "p"}]}},
        ".downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "problem"), VOLUME_FAULTS)
def test_invalid_volumes_are_reported(source: dict[str, Any], problem: str) -> None:
    assert f"spec.volumes[0]{problem}" in problems(pod(volumes=[{"name": "v", **source}]))


def test_invalid_volume_cannot_be_mounted() -> None:
    spec = container(volumeMounts=[{"name": "v", "mountPath": "/v"}])
    spec["spec"]["volumes"] = [{"name": "v", "secret": {}}]
    assert 'spec.containers[0].volumeMounts[0].name: Not found: "v"' in problems(spec)


def test_mirror_pod_needs_a_node() -> None:
    mirror = {**POD, "metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}
    assert problems(mirror) == [
        'metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": '
        "must set spec.nodeName if mirror pod annotation is set"
    ]


@pytest.mark.parametrize("cost", ["0", "-5", "2147483647"])
def test_deletion_cost_is_an_integer(cost: str) -> None:
    key = "controller.kubernetes.io/pod-deletion-cost"
    assert problems({**POD, "metadata": {"annotations": {key: cost}}}) == []


@pytest.mark.parametrize("cost", ["+5", "05", "x", "", "2147483648"])
def test_other_texts_are_invalid_deletion_costs(cost: str) -> None:
    key = "controller.kubernetes.io/pod-deletion-cost"
    (problem,) = problems({**POD, "metadata": {"annotations": {key: cost}}})
    assert problem.endswith("must be a 32bit integer")


ALLOWED_CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {"spec.containers.0.image": "app:2"}),
    ({}, {"spec.activeDeadlineSeconds": 5}),
    ({"spec.activeDeadlineSeconds": 5}, {"spec.activeDeadlineSeconds": 4}),
    ({}, {"spec.tolerations": [{"key": "a", "operator": "Exists"}]}),
    ({"spec.schedulingGates": [{"name": "a"}]}, {}),
    ({"spec.schedulingGates": [{"name": "a"}]}, {"spec.schedulingGates": [{"name": "a"}],
        "spec.nodeSelector": {"a": "b"}}),
    ({"spec.containers.0.resources": {"requests": {"cpu": "1"}}},
        {"spec.containers.0.resources": {"requests": {"cpu": "1000m"}}}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), ALLOWED_CHANGES)
def test_mutable_fields_of_a_pod(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert update_problems("pods", altered(POD, before), altered(POD, after)) == []


@pytest.mark.parametrize(
    ("before", "after", "start"),
    [
        ({}, {"spec.hostname": "h"}, "spec: Forbidden: pod updates may not change fields other than"),
        ({}, {"spec.nodeName": "n"}, "spec: Forbidden: pod updates may not change fields other than"),
        ({}, {"spec.nodeSelector": {"a": "b"}}, "spec: Forbidden: pod updates may not change fields other than"),
        ({"spec.activeDeadlineSeconds": 5}, {}, "spec.activeDeadlineSeconds: Invalid value: null: must not update"),
        (
            {"spec.activeDeadlineSeconds": 5},
            {"spec.activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        ),
        ({}, {"spec.schedulingGates": [{"name": "a"}]}, "spec.schedulingGates[0].name: Forbidden: only deletion"),
    ],
)
def test_other_fields_of_a_pod_are_immutable(before: dict[str, Any], after: dict[str, Any], start: str) -> None:
    found = update_problems("pods", altered(POD, before), altered(POD, after))
    assert any(problem.startswith(start) for problem in found), found


def test_rejected_change_is_shown_as_a_diff() -> None:
    (problem,) = update_problems("pods", POD, altered(POD, {"spec.hostname": "h"}))
    assert '\n- "Hostname": "",\n+ "Hostname": "h",\n' in problem


def test_containers_are_neither_added_nor_removed() -> None:
    two = altered(POD, {"spec.containers": [*POD["spec"]["containers"], {"name": "d", "image": "x"}]})
    assert update_problems("pods", POD, two) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


def test_ephemeral_containers_are_only_added() -> None:
    one = altered(POD, {"spec.ephemeralContainers": [{"name": "e", "image": "x"}]})
    assert update_problems("pods", POD, one, "ephemeralcontainers") == []
    (problem,) = update_problems("pods", one, POD, "ephemeralcontainers")
    assert problem.startswith("spec.ephemeralContainers: Forbidden: ")
    assert 'existing ephemeral containers "e" may not be removed' in problem


def sized(cpu: str, **more: str) -> dict[str, Any]:
    return container(resources={"requests": {"cpu": cpu, **more}, "limits": {"cpu": "9"}})


def test_resize_changes_cpu_and_memory_only() -> None:
    assert update_problems("pods", sized("1"), sized("2"), "resize") == []
    other = altered(sized("2"), {"spec.containers.0.image": "app:2"})
    assert update_problems("pods", sized("1"), other, "resize") == [
        "spec: Forbidden: only cpu and memory resources are mutable"
    ]
    assert "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed" in update_problems(
        "pods", sized("1", memory="1Mi"), sized("1"), "resize"
    )


def test_resize_keeps_the_qos_class() -> None:
    assert any("Pod QOS Class may not change" in one for one in update_problems("pods", POD, sized("1"), "resize"))


@pytest.mark.parametrize(
    ("policy", "code", "revives"),
    [("Always", 0, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_terminated_container_restarts_only_by_policy(policy: str, code: int, revives: bool) -> None:
    base = pod(restartPolicy=policy)
    ended = {"name": "c", "state": {"terminated": {"exitCode": code}}}
    runs = {"name": "c", "state": {"running": {}}}
    before, after = (altered(base, {"status": {"containerStatuses": [one]}}) for one in (ended, runs))
    found = update_problems("pods", before, after, "status")
    refusal = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert found == ([] if revives else [refusal])


def test_pod_has_at_most_one_address_per_family() -> None:
    good = altered(POD, {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}})
    assert update_problems("pods", POD, good, "status") == []
    bad = altered(POD, {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}})
    assert update_problems("pods", POD, bad, "status") == [
        'status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: '
        "may specify no more than one IP for each IP family"
    ]


def test_cached_valid_pod_is_still_validated_by_name() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    one = pod(volumes=[{"name": "v" * 50, "ephemeral": {"volumeClaimTemplate": template}}])
    assert problems(one) == []
    (problem,) = problems(altered(one, {"metadata": {"name": "n" * 250}}))
    assert "must be no more than 253" in problem


def test_annotations_of_a_cached_valid_spec_are_validated() -> None:
    assert problems(POD) == []
    wrong = altered(POD, {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/c": "bad"}}})
    assert problems(wrong)
