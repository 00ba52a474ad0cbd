"""PodSecurity: what each level refuses, in which words, and what namespaces are told."""

from __future__ import annotations

import pytest

from kubeloop.api import errors
from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.admission.plugins.pod_security.evaluation import evaluate, forbidden_details
from kubeloop.apiserver.admission.plugins.pod_security.labels import LevelVersion, policy_of

ENFORCE = "pod-security.kubernetes.io/enforce"
WARN = "pod-security.kubernetes.io/warn"
HARDENED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SAFE = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def _violations(level, version=-1, annotations=None, **spec):
    spec.setdefault("containers", [{"name": "c"}])
    pod = from_plain({"metadata": {"annotations": annotations or {}}, "spec": spec}, Pod)
    return forbidden_details(evaluate(LevelVersion(level, version), pod.metadata, pod.spec))


def _container(name="c", **security):
    return {"name": name, "securityContext": security}


def test_the_privileged_level_refuses_nothing():
    assert _violations("privileged", hostNetwork=True, containers=[_container(privileged=True)]) == ""


def test_a_plain_pod_passes_the_baseline_level():
    assert _violations("baseline") == ""


@pytest.mark.parametrize(
    ("spec", "violations"),
    [
        ({"hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
        (
            {"volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "hostPath": {"path": "/"}}]},
            'hostPath volumes (volumes "a", "b")',
        ),
        (
            {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}, {"hostPort": 443}]}]},
            'hostPort (container "c" uses hostPorts 443, 80)',
        ),
        (
            {"initContainers": [_container("i", privileged=True)], "containers": [_container(privileged=True)]},
            'privileged (containers "i", "c" must not set securityContext.privileged=true)',
        ),
        (
            {"containers": [_container(capabilities={"add": ["SYS_TIME", "CHOWN", "NET_ADMIN"]})]},
            'non-default capabilities (container "c" must not include "NET_ADMIN", "SYS_TIME" '
            "in securityContext.capabilities.add)",
        ),
        (
            {
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
                "containers": [_container(seccompProfile={"type": "Unconfined"})],
            },
            'seccompProfile (pod and container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}},
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            {"containers": [_container(seLinuxOptions={"type": "other_t", "user": "u", "role": "r"})]},
            'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: '
            'type "other_t"; user may not be set; role may not be set)',
        ),
        (
            {"containers": [_container(appArmorProfile={"type": "Unconfined"})]},
            'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
        ),
        (
            {"securityContext": {"windowsOptions": {"hostProcess": True}}},
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            {"containers": [_container(procMount="Unmasked")]},
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "1.2.3.4", "port": 80}}}]},
            'probe or lifecycle host (container "c" uses probe or lifecycle host "1.2.3.4")',
        ),
    ],
)
def test_the_baseline_level_refuses_ways_to_more_rights(spec, violations):
    assert _violations("baseline", **spec) == violations


def test_old_annotations_count_for_app_armor():
    annotations = {
        "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
        "container.apparmor.security.beta.kubernetes.io/b": "localhost/mine",
    }
    assert _violations("baseline", annotations=annotations) == (
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/a="unconfined"")'
    )


def test_a_hardened_pod_passes_the_restricted_level():
    assert _violations("restricted", securityContext=SAFE, containers=[_container(**HARDENED)]) == ""


def test_the_restricted_level_wants_everything_said():
    assert _violations("restricted") == (
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")'
    )


@pytest.mark.parametrize(
    ("spec", "violations"),
    [
        (
            {"securityContext": {**SAFE, "runAsUser": 0}},
            "runAsUser=0 (pod must not set runAsUser=0)",
        ),
        (
            {"volumes": [{"name": "v", "nfs": {"path": "/", "server": "s"}}, {"name": "ok", "emptyDir": {}}]},
            'restricted volume types (volume "v" uses restricted volume type "nfs")',
        ),
        (
            {"containers": [_container(**{**HARDENED, "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]}})]},
            'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
        (
            {"containers": [_container(**HARDENED, runAsNonRoot=False)]},
            'runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)',
        ),
        (
            {"containers": [_container(**HARDENED, procMount="Unmasked")], "hostUsers": False},
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
    ],
)
def test_the_restricted_level_refuses_what_hardened_pods_do_without(spec, violations):
    base = {"securityContext": SAFE, "containers": [_container(**HARDENED)]}
    assert _violations("restricted", **{**base, **spec}) == violations


def test_windows_and_user_namespaces_need_less():
    assert _violations("restricted", os={"name": "windows"}, securityContext=SAFE) == ""
    own_users = {"securityContext": {"seccompProfile": {"type": "Localhost"}, "runAsUser": 0}, "hostUsers": False}
    assert _violations("restricted", containers=[_container(**HARDENED)], **own_users) == ""


@pytest.mark.parametrize(
    ("version", "spec", "passes"),
    [
        (33, {"containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"host": "h", "port": 1}}}]}, True),
        (34, {"containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"host": "h", "port": 1}}}]}, False),
        (31, {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, False),
        (32, {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, True),
        (18, {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, True),
        (99, {"hostPID": True}, False),
    ],
)
def test_an_older_version_of_a_level_checks_what_it_did_then(version, spec, passes):
    assert (_violations("baseline", version, **spec) == "") is passes


# -- the plugin -------------------------------------------------------------------------------------------------------


def _label(cluster, **labels):
    cluster.add("namespaces", "careful", metadata={"labels": labels}, status={"phase": "Active"})
    cluster.add("serviceaccounts", "default", "careful")


def test_a_namespaces_label_is_enforced_on_its_pods(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline", ENFORCE + "-version": "v1.30"})
    with pytest.raises(errors.Forbidden) as caught:
        writes.create("pods", "careful", spec={"hostPID": True, "containers": [{"name": "c"}]})
    assert caught.value.message == (
        'pods "x" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true)'
    )


def test_what_makes_pods_is_warned_about_but_let_in(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline"})
    template = {"spec": {"hostPID": True, "containers": [{"name": "c"}]}}
    writes.create("deployments", "careful", spec={"template": template})
    writes.create("cronjobs", "careful", spec={"jobTemplate": {"spec": {"template": template}}})
    warning = 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert writes.warnings == [warning, warning]


def test_a_controller_without_a_template_is_left_alone(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline"})
    writes.create("replicationcontrollers", "careful", spec={"template": None})
    assert writes.warnings == []


def test_an_update_counts_only_if_it_runs_something_else(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline"})
    old = {"spec": {"hostPID": True, "containers": [{"name": "c", "image": "a"}]}}
    writes.update("pods", "careful", old, {**old, "metadata": {"labels": {"a": "b"}}})
    with pytest.raises(errors.Forbidden):
        writes.update("pods", "careful", old, {"spec": {**old["spec"], "containers": [{"name": "c", "image": "b"}]}})
    debugger = {"spec": {**old["spec"], "ephemeralContainers": [{"name": "d", "image": "sh"}]}}
    with pytest.raises(errors.Forbidden):
        writes.update("pods", "careful", old, debugger, subresource="ephemeralcontainers")


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({ENFORCE: "strict"}, f'[{ENFORCE}]: Invalid value: "strict": must be one of privileged, baseline, restricted'),
        ({WARN + "-version": "1.20"}, f'[{WARN}-version]: Invalid value: "1.20": must be "latest" or "v1.x"'),
    ],
)
def test_labels_that_mean_nothing_are_refused(writes, labels, why):
    with pytest.raises(errors.Invalid) as caught:
        writes.create("namespaces", name="new", metadata={"labels": labels})
    assert caught.value.message == f'Namespace "new" is invalid: metadata.labels{why}'
    with pytest.raises(errors.Invalid):
        writes.update("namespaces", "", {}, {"metadata": {"labels": labels}})
    writes.update("namespaces", "", {"metadata": {"labels": labels}}, {"metadata": {"labels": labels}})


def test_a_namespace_whose_level_is_raised_hears_of_pods_that_violate_it(cluster, writes):
    for name in ("b", "a"):
        cluster.add("pods", name, "x", spec={"hostPID": True, "containers": [{"name": "c"}]})
    cluster.add("pods", "fine", "x", spec={"containers": [{"name": "c"}]})
    writes.update("namespaces", "", {}, {"metadata": {"labels": {ENFORCE: "baseline"}}})
    assert writes.warnings == [
        'existing pods in namespace "x" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): host namespaces",
    ]


def test_a_namespace_whose_level_is_lowered_hears_nothing(cluster, writes):
    cluster.add("pods", "a", "x", spec={"hostPID": True, "containers": [{"name": "c"}]})
    restricted, baseline = ({"metadata": {"labels": {ENFORCE: level}}} for level in ("restricted", "baseline"))
    writes.update("namespaces", "", restricted, baseline)
    assert writes.warnings == []


@pytest.mark.parametrize(
    ("labels", "enforce", "warn"),
    [
        ({}, "privileged:latest", "privileged:latest"),
        ({ENFORCE: "baseline", ENFORCE + "-version": "v1.9"}, "baseline:v1.9", "baseline:v1.9"),
        ({ENFORCE: "baseline", WARN: "restricted"}, "baseline:latest", "restricted:latest"),
        ({ENFORCE: "restricted", WARN: "privileged"}, "restricted:latest", "privileged:latest"),
        ({ENFORCE: "nonsense"}, "restricted:latest", "privileged:latest"),
    ],
)
def test_what_is_enforced_is_warned_about_unless_labels_say_otherwise(labels, enforce, warn):
    policy = policy_of(labels)
    assert (str(policy.enforce), str(policy.warn)) == (enforce, warn)
