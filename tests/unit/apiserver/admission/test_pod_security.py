# SPDX-License-Identifier: Apache-2.0
"""Tests of PodSecurity: rejections of each level with their messages, and namespace warnings."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr, from_plain
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.admission import Attributes
from kubeloop.apiserver.admission.plugins.pod_security import PodSecurity
from kubeloop.apiserver.admission.plugins.pod_security.configuration import (
    PodSecurityConfiguration,
    PodSecurityExemptions,
)
from kubeloop.apiserver.admission.plugins.pod_security.evaluation import evaluate, forbidden_details
from kubeloop.apiserver.admission.plugins.pod_security.labels import LevelVersion, policy_of
from kubeloop.apiserver.admission.plugins.pod_security.metrics import PodSecurityMetrics
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.warning_recorder import WarningRecorder
from kubeloop.metrics import MetricRegistry
from tests.unit.apiserver.admission.conftest import resource_named

ENFORCE = "pod-security.kubernetes.io/enforce"
AUDIT = "pod-security.kubernetes.io/audit"
WARN = "pod-security.kubernetes.io/warn"
HARDENED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SAFE = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def _violations(level, version=-1, annotations=None, **spec):
    spec.setdefault("containers", [{"name": "c"}])
    pod = from_plain({"metadata": {"annotations": annotations or {}}, "spec": spec}, Pod)
    return forbidden_details(evaluate(LevelVersion(level, version), pod.metadata, pod.spec))


def _container(name="c", **security):
    return {"name": name, "securityContext": security}


def test_privileged_level_rejects_nothing():
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
def test_baseline_level_rejects_privilege_escalation(spec, violations):
    assert _violations("baseline", **spec) == violations


def test_app_armor_annotations_are_checked():
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


def test_restricted_level_requires_explicit_settings():
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
def test_restricted_level_rejects_excess_privileges(spec, violations):
    base = {"securityContext": SAFE, "containers": [_container(**HARDENED)]}
    assert _violations("restricted", **{**base, **spec}) == violations


def test_windows_and_user_namespaces_relax_checks():
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
def test_older_version_of_a_level_has_its_own_checks(version, spec, passes):
    assert (_violations("baseline", version, **spec) == "") is passes


# -- the plugin -------------------------------------------------------------------------------------------------------


def _label(cluster, **labels):
    cluster.add("namespaces", "careful", metadata={"labels": labels}, status={"phase": "Active"})
    cluster.add("serviceaccounts", "default", "careful")


def test_namespace_label_is_enforced_on_pods(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline", ENFORCE + "-version": "v1.30"})
    with pytest.raises(errors.Forbidden) as caught:
        writes.create("pods", "careful", spec={"hostPID": True, "containers": [{"name": "c"}]})
    assert caught.value.message == (
        'pods "x" is forbidden: violates PodSecurity "baseline:v1.30": host namespaces (hostPID=true)'
    )


def test_workloads_are_warned_about_but_admitted(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline"})
    template = {"spec": {"hostPID": True, "containers": [{"name": "c"}]}}
    writes.create("deployments", "careful", spec={"template": template})
    writes.create("cronjobs", "careful", spec={"jobTemplate": {"spec": {"template": template}}})
    warning = 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert writes.warnings == [warning]  # each text once per response


def test_controller_without_a_template_is_ignored(cluster, writes):
    _label(cluster, **{ENFORCE: "baseline"})
    writes.create("replicationcontrollers", "careful", spec={"template": None})
    assert writes.warnings == []


def test_update_is_checked_only_if_the_spec_changes(cluster, writes):
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
def test_invalid_labels_are_rejected(writes, labels, why):
    with pytest.raises(errors.Invalid) as caught:
        writes.create("namespaces", name="new", metadata={"labels": labels})
    assert caught.value.message == f'Namespace "new" is invalid: metadata.labels{why}'
    with pytest.raises(errors.Invalid):
        writes.update("namespaces", "", {}, {"metadata": {"labels": labels}})
    writes.update("namespaces", "", {"metadata": {"labels": labels}}, {"metadata": {"labels": labels}})


def test_raised_level_warns_about_violating_pods(cluster, writes):
    for name in ("b", "a"):
        cluster.add("pods", name, "x", spec={"hostPID": True, "containers": [{"name": "c"}]})
    cluster.add("pods", "fine", "x", spec={"containers": [{"name": "c"}]})
    writes.update("namespaces", "", {}, {"metadata": {"labels": {ENFORCE: "baseline"}}})
    assert writes.warnings == [
        'existing pods in namespace "x" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 1 other pod): host namespaces",
    ]


def test_lowered_level_warns_about_nothing(cluster, writes):
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
def test_enforced_level_is_the_default_of_warn(labels, enforce, warn):
    policy = policy_of(labels)
    assert (str(policy.enforce), str(policy.warn)) == (enforce, warn)


# -- audit, configuration, exemptions ---------------------------------------------------------------------------------

HOST_PID = {"hostPID": True, "containers": [{"name": "c"}]}
VIOLATION = "host namespaces (hostPID=true)"
BASELINE = PodSecurityConfiguration(
    defaults={"enforce": "baseline", "audit": "baseline", "warn": "baseline"},
    exemptions=PodSecurityExemptions(("robot",), ("exempt",), ("kata",)),
)


def _attempt(plural, spec, *, namespace="careful", user="jane", operation="CREATE", old=None, labels=None):
    def built(fields):
        metadata = {"name": "x", "namespace": namespace, "labels": labels or {}}
        return from_plain({"metadata": metadata, "spec": fields}, resource_named(plural).type)

    before = None if old is None else built(old)
    noon = datetime(2026, 5, 10, 12, tzinfo=UTC)
    return Attributes(
        operation,
        resource_named(plural),
        "",
        namespace,
        "x",
        built(spec),
        before,
        User(user),
        False,
        noon,
        WarningRecorder(),
    )


def _notes(attempt):
    return {key.removeprefix("pod-security.kubernetes.io/"): text for key, text in attempt.annotations.items()}


def test_the_enforced_policy_of_every_pod_is_audited(cluster):
    _label(cluster)
    attempt = _attempt("pods", HOST_PID)
    PodSecurity(cluster).validate(attempt)
    assert _notes(attempt) == {"enforce-policy": "privileged:latest"}


def test_a_workload_of_a_privileged_namespace_is_not_annotated(cluster):
    _label(cluster)
    attempt = _attempt("deployments", {"template": {"spec": HOST_PID}})
    PodSecurity(cluster).validate(attempt)
    assert _notes(attempt) == {}


def test_violations_of_the_audit_level_are_annotated_and_let_in(cluster):
    _label(cluster, **{AUDIT: "baseline", AUDIT + "-version": "v1.30"})
    attempt = _attempt("pods", HOST_PID)
    PodSecurity(cluster).validate(attempt)
    assert _notes(attempt) == {
        "enforce-policy": "privileged:latest",
        "audit-violations": f'would violate PodSecurity "baseline:v1.30": {VIOLATION}',
    }
    assert list(attempt.warnings) == []


def test_workloads_are_audited_too(cluster):
    _label(cluster, **{AUDIT: "baseline"})
    attempt = _attempt("jobs", {"template": {"spec": HOST_PID}})
    PodSecurity(cluster).validate(attempt)
    assert _notes(attempt) == {"audit-violations": f'would violate PodSecurity "baseline:latest": {VIOLATION}'}


def test_a_refused_pod_is_audited_without_a_warning(cluster):
    _label(cluster, **{ENFORCE: "baseline", AUDIT: "baseline", WARN: "baseline"})
    attempt = _attempt("pods", HOST_PID)
    with pytest.raises(errors.Forbidden):
        PodSecurity(cluster).validate(attempt)
    assert _notes(attempt) == {
        "enforce-policy": "baseline:latest",
        "audit-violations": f'would violate PodSecurity "baseline:latest": {VIOLATION}',
    }
    assert list(attempt.warnings) == []


def test_evaluations_and_exemptions_are_counted(cluster):
    registry = MetricRegistry()
    exempt = PodSecurityConfiguration(exemptions=PodSecurityExemptions(usernames=("root",)))
    plugin = PodSecurity(cluster, exempt, PodSecurityMetrics(registry))
    _label(cluster, **{ENFORCE: "baseline", AUDIT: "restricted", AUDIT + "-version": "v1.30", WARN: "nothing"})
    plugin.validate(_attempt("pods", HOST_PID, namespace="lax"))  # without labels
    with pytest.raises(errors.Forbidden):
        plugin.validate(_attempt("pods", HOST_PID))
    plugin.validate(_attempt("jobs", {"template": {"spec": HOST_PID}}, user="root"))
    of_pod = 'request_operation="create",resource="pod",subresource=""'

    def evaluation(decision, mode, level, version):
        policy = f'policy_level="{level}",policy_version="{version}"'
        return f'pod_security_evaluations_total{{decision="{decision}",mode="{mode}",{policy},{of_pod}}} 1'

    counted = [line for line in registry.render().splitlines() if line.endswith(" 1")]
    assert counted == [
        f'pod_security_errors_total{{fatal="false",{of_pod}}} 1',
        evaluation("allow", "enforce", "privileged", "latest"),
        evaluation("deny", "enforce", "baseline", "latest"),
        evaluation("deny", "audit", "restricted", "v1.30"),
        'pod_security_exemptions_total{request_operation="create",resource="controller",subresource=""} 1',
    ]


def test_labels_that_cannot_be_parsed_are_audited(cluster):
    _label(cluster, **{AUDIT: "strict", WARN: "lax"})
    attempt = _attempt("pods", {"containers": [{"name": "c"}]})
    PodSecurity(cluster).validate(attempt)
    problem = 'Invalid value: "{}": must be one of privileged, baseline, restricted'
    assert _notes(attempt)["error"] == (
        "Failed to parse policy: [metadata.labels[pod-security.kubernetes.io/audit]: "
        + problem.format("strict")
        + ", metadata.labels[pod-security.kubernetes.io/warn]: "
        + problem.format("lax")
        + "]"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"namespace": "exempt"}, "namespace"),
        ({"user": "robot"}, "user"),
        ({"spec": {**HOST_PID, "runtimeClassName": "kata"}}, "runtimeClass"),
    ],
)
@pytest.mark.parametrize("plural", ["pods", "deployments"])
def test_exemptions_are_audited(cluster, change, reason, plural):
    _label(cluster)
    spec = change.get("spec", HOST_PID)
    where = {key: value for key, value in change.items() if key != "spec"}
    attempt = _attempt(plural, spec if plural == "pods" else {"template": {"spec": spec}}, **where)
    PodSecurity(cluster, BASELINE).validate(attempt)
    assert _notes(attempt) == {"exempt": reason}
    assert list(attempt.warnings) == []


def test_the_configurations_defaults_hold_without_labels(cluster):
    _label(cluster)
    attempt = _attempt("pods", HOST_PID)
    with pytest.raises(errors.Forbidden, match="violates PodSecurity"):
        PodSecurity(cluster, BASELINE).validate(attempt)
    workload = _attempt("deployments", {"template": {"spec": HOST_PID}})
    PodSecurity(cluster, BASELINE).validate(workload)
    assert list(workload.warnings) == [f'would violate PodSecurity "baseline:latest": {VIOLATION}']


def test_labels_precede_the_configurations_defaults():
    defaults = BASELINE.policy()
    assert str(policy_of({ENFORCE: "privileged"}, defaults).enforce) == "privileged:latest"
    assert str(policy_of({ENFORCE: "privileged"}, defaults).warn) == "baseline:latest"
    assert str(policy_of({ENFORCE: "restricted", ENFORCE + "-version": "v1.3"}, defaults).warn) == "restricted:v1.3"
    assert str(policy_of({ENFORCE + "-version": "v1.3"}, defaults).enforce) == "baseline:v1.3"
    assert policy_of({}, defaults) is defaults


def test_labels_of_an_exempt_namespace_are_said_to_be_ignored(cluster):
    config = PodSecurityConfiguration(exemptions=PodSecurityExemptions((), ("x",), ()))
    attempt = _attempt("namespaces", {}, namespace="", labels={ENFORCE: "baseline", AUDIT: "restricted"})
    PodSecurity(cluster, config).validate(attempt)
    assert list(attempt.warnings) == [
        'namespace "x" is exempt from Pod Security, and the policy '
        "(enforce=baseline:latest, audit=restricted:latest) will be ignored"
    ]
    unlabelled = _attempt("namespaces", {}, namespace="")
    PodSecurity(cluster, config).validate(unlabelled)
    assert list(unlabelled.warnings) == []


def test_an_insignificant_update_is_not_evaluated(cluster):
    _label(cluster, **{ENFORCE: "baseline"})
    attempt = _attempt("pods", HOST_PID, operation="UPDATE", old=HOST_PID)
    PodSecurity(cluster).validate(attempt)
    assert _notes(attempt) == {}


# -- rules that once no test noticed the removal of -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "plural", "subresource", "handled"),
    [
        ("CREATE", "pods", "", True),
        ("DELETE", "pods", "", False),
        ("UPDATE", "pods", "ephemeralcontainers", True),
        ("UPDATE", "pods", "status", False),
        ("UPDATE", "namespaces", "", True),
        ("UPDATE", "namespaces", "status", False),
        ("UPDATE", "deployments", "", True),
        ("UPDATE", "deployments", "status", False),
        ("UPDATE", "configmaps", "", False),
    ],
)
def test_only_writes_that_can_violate_a_level_are_evaluated(cluster, operation, plural, subresource, handled):
    assert PodSecurity(cluster).handles(operation, resource_named(plural), subresource) is handled


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_ephemeral_containers_are_checked(level):
    debugger = {"ephemeralContainers": [_container("debug", privileged=True)]}
    assert 'privileged (container "debug" must not set' in _violations(level, **debugger)


@pytest.mark.parametrize("hook", ["postStart", "preStop"])
def test_hosts_of_lifecycle_hooks_are_checked(hook):
    container = {"name": "c", "lifecycle": {hook: {"httpGet": {"host": "h", "port": 1}}}}
    assert _violations("baseline", containers=[container])
    assert _violations("baseline", containers=[{"name": "c", "lifecycle": {hook: {"httpGet": {"port": 1}}}}]) == ""


def test_a_container_of_the_host_is_refused_only_if_it_says_so():
    assert _violations("baseline", containers=[_container(windowsOptions={"runAsUserName": "u"})]) == ""
    assert _violations("baseline", containers=[_container(windowsOptions={"hostProcess": True})]) == (
        'hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)'
    )


def test_a_context_without_capabilities_drops_nothing():
    found = _violations("restricted", containers=[_container(allowPrivilegeEscalation=False)], securityContext=SAFE)
    assert found == ('unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"])')


def _raise_level(cluster, config=None, **labels):
    attempt = _attempt("namespaces", {}, namespace="", labels=labels, operation="UPDATE", old={})
    force_setattr(attempt.old_obj.metadata, "labels", {})
    PodSecurity(cluster, config or PodSecurityConfiguration()).validate(attempt)
    return list(attempt.warnings)


def _violators(cluster, count):
    for index in range(count):
        cluster.add("pods", f"p{index}", "x", spec=HOST_PID)


def test_one_violating_pod_is_named_alone(cluster):
    _violators(cluster, 1)
    assert _raise_level(cluster, **{ENFORCE: "baseline"}) == [
        'existing pods in namespace "x" violate the new PodSecurity enforce level "baseline:latest"',
        "p0: host namespaces",
    ]


@pytest.mark.parametrize(("count", "others"), [(2, "1 other pod"), (3, "2 other pods")])
def test_equal_violations_are_counted(cluster, count, others):
    _violators(cluster, count)
    assert _raise_level(cluster, **{ENFORCE: "baseline"})[1] == f"p0 (and {others}): host namespaces"


def test_pods_of_exempt_runtime_classes_are_not_counted(cluster):
    cluster.add("pods", "p", "x", spec={**HOST_PID, "runtimeClassName": "kata"})
    config = PodSecurityConfiguration(exemptions=PodSecurityExemptions((), (), ("kata",)))
    assert _raise_level(cluster, config, **{ENFORCE: "baseline"}) == []


def test_not_all_of_very_many_pods_are_checked(cluster, monkeypatch):
    monkeypatch.setattr("kubeloop.apiserver.admission.plugins.pod_security._MAX_PODS", 2)
    _violators(cluster, 3)
    assert _raise_level(cluster, **{ENFORCE: "baseline"}) == [
        "new PodSecurity enforce level only checked against the first 2 of 3 existing pods",
        'existing pods in namespace "x" violate the new PodSecurity enforce level "baseline:latest"',
        "p0 (and 1 other pod): host namespaces",
    ]
    assert _raise_level(cluster, **{ENFORCE: "privileged", ENFORCE + "-version": "v1.3"}) == []


def test_a_later_pod_of_an_owner_is_checked_after_others(cluster, monkeypatch):
    monkeypatch.setattr("kubeloop.apiserver.admission.plugins.pod_security._MAX_PODS", 2)
    owner = {"apiVersion": "v1", "kind": "ReplicationController", "name": "o", "uid": "u", "controller": True}
    for name in ("a", "b"):
        cluster.add("pods", name, "x", {"ownerReferences": [owner]}, spec={"containers": []})
    cluster.add("pods", "c", "x", spec=HOST_PID)
    assert _raise_level(cluster, **{ENFORCE: "baseline"})[-1] == "c: host namespaces"


def test_a_later_version_of_the_same_level_is_checked_too(cluster):
    _violators(cluster, 1)
    attempt = _attempt("namespaces", {}, namespace="", labels={ENFORCE: "baseline"}, operation="UPDATE", old={})
    force_setattr(attempt.old_obj.metadata, "labels", {ENFORCE: "baseline", ENFORCE + "-version": "v1.3"})
    PodSecurity(cluster).validate(attempt)
    assert len(list(attempt.warnings)) == 2
    relaxed = _attempt("namespaces", {}, namespace="", labels={ENFORCE: "baseline"}, operation="UPDATE", old={})
    force_setattr(relaxed.old_obj.metadata, "labels", {ENFORCE: "restricted"})
    PodSecurity(cluster).validate(relaxed)
    assert list(relaxed.warnings) == []


def test_old_versions_check_seccomp_annotations():
    found = _violations("baseline", 18, {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"})
    assert found.startswith("seccompProfile (")
    assert _violations("baseline", 18, {"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}) == ""
