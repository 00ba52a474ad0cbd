# SPDX-License-Identifier: Apache-2.0
"""Tests of warnings about pods."""

from __future__ import annotations

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.generated.apps_v1 import Deployment
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.strategy.pods.pod import POD
from kubeloop.api.warnings import warnings_for


def _warnings_of(metadata=None, name="p", **spec):
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    pod = from_plain({"metadata": {"name": name, **(metadata or {})}, "spec": spec}, Pod)
    apply_defaults(pod)
    POD.prepare_create(pod, DEFAULT_FEATURES)
    return list(warnings_for(pod, None))


def _container(**fields):
    return {"name": "c", "image": "i", **fields}


def test_ordinary_pod_has_no_warnings():
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "A", "value": "$(A)2"}]
    ports = [{"containerPort": 80, "name": "web"}, {"containerPort": 80, "protocol": "UDP"}]
    assert _warnings_of(containers=[_container(env=env, ports=ports, resources={"limits": {"memory": "1Gi"}})]) == []


CASES = {
    "a label of nodes by its old name": (
        {"nodeSelector": {"beta.kubernetes.io/arch": "x"}},
        'spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "kubernetes.io/arch" instead',
    ),
    "a null selector spreads nothing": (
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
    ),
    "a null selector attracts nothing": (
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}},
        "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: "
        "a null labelSelector results in matching no pod",
    ),
    "a volume of a driver that is gone": (
        {"volumes": [{"name": "v", "gitRepo": {"repository": "r"}}]},
        "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    ),
    "files at the same place": (
        {"volumes": [{"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": "x"}] * 2}}]},
        'volume "v" (ConfigMap "m"): overlapping paths: "x" with "x"',
    ),
    "an empty name of a pull secret": (
        {"imagePullSecrets": [{}]},
        'spec.imagePullSecrets[0].name: invalid empty name ""',
    ),
    "the same address twice": (
        {"hostAliases": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]},
        'spec.hostAliases[1].ip: duplicate ip "1.2.3.4"',
    ),
    "an address of version 6 in long form": (
        {"hostAliases": [{"ip": "::0001"}]},
        'spec.hostAliases[0].ip: IPv6 address "::0001" should be in RFC 5952 canonical format ("::1")',
    ),
    "half a byte": (
        {"containers": [_container(resources={"limits": {"memory": "500m"}, "requests": {"memory": "0"}})]},
        'spec.containers[0].resources.limits[memory]: fractional byte value "500m" is invalid, must be an integer',
    ),
    "a variable that hides another": (
        {"containers": [_container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}])]},
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
    ),
    "a variable that is itself": (
        {"containers": [_container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)"}])]},
        'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
    ),
    "the same port twice": (
        {"containers": [_container(ports=[{"containerPort": 1}, {"containerPort": 1}])]},
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
    ),
    "the same port on a host and anywhere": (
        {"containers": [_container(ports=[{"containerPort": 1}, {"containerPort": 1, "hostPort": 2}])]},
        "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
    ),
    "a host port on one address and on all": (
        {
            "containers": [
                _container(
                    ports=[
                        {"containerPort": 1, "hostPort": 2, "hostIP": "1.2.3.4"},
                        {"containerPort": 1, "hostPort": 2},
                    ]
                )
            ]
        },
        "spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]",
    ),
    "an address of a host without a port": (
        {"containers": [_container(ports=[{"containerPort": 1, "hostIP": "1.2.3.4"}])]},
        "spec.containers[0].ports[0]: hostIP set without hostPort: "
        "{Name: HostPort:0 ContainerPort:1 Protocol:TCP HostIP:1.2.3.4}",
    ),
    "the same name in two containers": (
        {
            "containers": [_container(ports=[{"containerPort": 1, "name": "web"}])],
            "initContainers": [
                {"name": "i", "image": "i", "restartPolicy": "Always", "ports": [{"containerPort": 2, "name": "web"}]}
            ],
        },
        'spec.containers[0].ports[0]: duplicate port name "web" with spec.initContainers[0].ports[0], '
        "services and probes that select ports by name will use spec.initContainers[0].ports[0]",
    ),
}


@pytest.mark.parametrize(("spec", "text"), CASES.values(), ids=CASES.keys())
def test_warnings_match_upstream(spec, text):
    assert _warnings_of(**spec) == [text]


def test_overlapping_projected_paths_warn():
    sources = [
        {"serviceAccountToken": {"path": "a/b"}},
        {"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}},
        {},
    ]
    assert _warnings_of(volumes=[{"name": "v", "projected": {"sources": sources}}]) == [
        'volume "v" (Projected) has no sources provided',
        'volume "v" (Projected): overlapping paths: "a" (Secret "s") with "a/b" (ServiceAccountToken)',
    ]


def test_name_that_is_not_a_hostname_warns():
    (said,) = _warnings_of(name="a.b")
    assert said.startswith(
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior;"
    )


@pytest.mark.parametrize(
    "key",
    ["scheduler.alpha.kubernetes.io/critical-pod", "seccomp.security.alpha.kubernetes.io/pod"],
)
def test_ineffective_annotations_warn(key):
    (said,) = _warnings_of({"annotations": {key: "runtime/default"}})
    assert said.startswith(f"metadata.annotations[{key}]: non-functional in ")


def test_app_armor_annotation_warns_unless_the_field_is_set():
    key = "container.apparmor.security.beta.kubernetes.io/c"
    meta = {"annotations": {key: "runtime/default"}}
    field = {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    text = f'metadata.annotations[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert _warnings_of(meta) == [text]
    assert _warnings_of(meta, containers=[_container(**field)]) == []
    assert _warnings_of(meta, **field) == []


def _deployment(generation, name="d"):
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    template = {"spec": {"containers": [_container(env=env)]}}
    plain = {"metadata": {"name": name, "generation": generation}, "spec": {"template": template}}
    return from_plain(plain, Deployment)


def test_templates_are_checked_when_changed():
    where = "spec.template.spec.containers[0].env[1]"
    text = f'{where}: hides previous definition of "A", which may be dropped when using apply'
    assert warnings_for(_deployment(1), None) == [text]
    assert warnings_for(_deployment(2), _deployment(1)) == [text]
    assert warnings_for(_deployment(1), _deployment(1)) == []
    assert warnings_for(_deployment(2), _deployment(1), "status") == ()


def test_negative_grace_period_in_a_template_warns():
    template = {"spec": {"containers": [_container()], "terminationGracePeriodSeconds": -1}}
    made = from_plain({"metadata": {"name": "d"}, "spec": {"template": template}}, Deployment)
    assert warnings_for(made, None) == [
        "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; "
        "negative values are invalid and will be treated as 1"
    ]


def test_status_addresses_are_checked():
    pod = from_plain({"status": {"podIPs": [{"ip": "010.1.1.1"}], "hostIPs": [{"ip": "::ffff:1.1.1.1"}]}}, Pod)
    assert warnings_for(pod, pod, "status") == [
        'status.podIPs[0].ip: non-standard IP address "010.1.1.1" is invalid: use "10.1.1.1"',
        'status.hostIPs[0].ip: non-standard IP address "::ffff:1.1.1.1" is invalid: use "1.1.1.1"',
    ]
