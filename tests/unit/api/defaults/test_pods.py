# SPDX-License-Identifier: Apache-2.0
"""Tests of defaults of pods and pod templates."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.defaults.pods.images import pull_policy_of
from kubeloop.api.generated import apps_v1, batch_v1, core_v1


def pod_with(**spec: Any) -> Any:
    """The spec of a pod with these fields, after defaulting, as it stands on the wire."""
    pod = codec.from_plain({"metadata": {"name": "p"}, "spec": spec}, core_v1.Pod)
    apply_defaults(pod)
    return codec.to_plain(pod)["spec"]


def container_with(**fields: Any) -> Any:
    return pod_with(containers=[{"name": "c", "image": "app:1", **fields}])["containers"][0]


def volume_with(**source: Any) -> Any:
    volume = pod_with(containers=[], volumes=[{"name": "v", **source}])["volumes"][0]
    del volume["name"]
    return volume


def test_a_minimal_pod_gets_every_default() -> None:
    assert pod_with(containers=[{"name": "c", "image": "nginx"}]) == {
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }


def test_explicit_values_are_kept() -> None:
    said = {
        "dnsPolicy": "None",
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "schedulerName": "mine",
        "securityContext": {"runAsUser": 7},
        "terminationGracePeriodSeconds": 0,
    }
    spec = pod_with(containers=[], **said)
    assert {key: spec[key] for key in said} == said


def test_a_negative_grace_period_becomes_one_second_in_pods_only() -> None:
    assert pod_with(containers=[], terminationGracePeriodSeconds=-5)["terminationGracePeriodSeconds"] == 1
    template = core_v1.PodTemplate(
        template=core_v1.PodTemplateSpec(spec=core_v1.PodSpec(termination_grace_period_seconds=-5))
    )
    apply_defaults(template)
    assert template.template.spec.termination_grace_period_seconds == -5


@pytest.mark.parametrize(
    ("said", "account"),
    [
        ({"serviceAccount": "old"}, "old"),
        ({"serviceAccountName": "new"}, "new"),
        ({"serviceAccount": "old", "serviceAccountName": "new"}, "new"),
    ],
)
def test_both_names_of_the_service_account_agree(said: dict[str, str], account: str) -> None:
    spec = pod_with(containers=[], **said)
    assert (spec["serviceAccount"], spec["serviceAccountName"]) == (account, account)


def test_requests_follow_limits_in_pods_but_not_in_templates() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    assert container_with(resources=resources)["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    replica_set = codec.from_plain(
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "resources": resources}]}}}}, apps_v1.ReplicaSet
    )
    apply_defaults(replica_set)
    assert codec.to_plain(replica_set)["spec"]["template"]["spec"]["containers"][0]["resources"] == resources


def test_host_network_sets_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 9}]
    spec = pod_with(hostNetwork=True, containers=[{"name": "c", "ports": ports}])
    assert [port["hostPort"] for port in spec["containers"][0]["ports"]] == [80, 9]
    assert "hostPort" not in pod_with(containers=[{"name": "c", "ports": ports}])["containers"][0]["ports"][0]


def test_ports_default_to_tcp() -> None:
    assert container_with(ports=[{"containerPort": 80}])["ports"] == [{"containerPort": 80, "protocol": "TCP"}]


@pytest.mark.parametrize("field", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_probes_get_their_timing_and_their_action(field: str) -> None:
    timing = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    over_http = container_with(**{field: {"httpGet": {"port": 80}}})[field]
    assert over_http == {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, **timing}
    assert container_with(**{field: {"grpc": {"port": 80}}})[field] == {"grpc": {"port": 80, "service": ""}, **timing}


def test_lifecycle_hooks_over_http_get_path_and_scheme() -> None:
    hooks = container_with(lifecycle={"preStop": {"httpGet": {"port": 1}}, "postStart": {"exec": {"command": ["x"]}}})
    assert hooks["lifecycle"]["preStop"]["httpGet"] == {"path": "/", "port": 1, "scheme": "HTTP"}


def test_environment_references_are_defaulted() -> None:
    env = container_with(
        env=[
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "B", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "v"}}},
        ]
    )["env"]
    assert env[0]["valueFrom"]["fieldRef"] == {"apiVersion": "v1", "fieldPath": "metadata.name"}
    assert env[1]["valueFrom"]["fileKeyRef"]["optional"] is False


def test_ephemeral_and_init_containers_are_defaulted() -> None:
    spec = pod_with(initContainers=[{"name": "i"}], ephemeralContainers=[{"name": "e"}], containers=[])
    for container in (*spec["initContainers"], *spec["ephemeralContainers"]):
        assert container["terminationMessagePolicy"] == "File"
        assert container["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("source", "completed"),
    [
        ({}, {"emptyDir": {}}),
        ({"emptyDir": {"medium": "Memory"}}, {"emptyDir": {"medium": "Memory"}}),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 0o644}}),
        ({"configMap": {"name": "m", "defaultMode": 0}}, {"configMap": {"name": "m", "defaultMode": 0}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        ({"image": {"reference": "a:latest"}}, {"image": {"reference": "a:latest", "pullPolicy": "Always"}}),
        (
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
            {
                "downwardAPI": {
                    "defaultMode": 0o644,
                    "items": [{"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}],
                }
            },
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "defaultMode": 0o644,
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                }
            },
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {
                "ephemeral": {
                    "volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {}, "volumeMode": "Filesystem"}}
                }
            },
        ),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "u", "fsType": ""}},
            {
                "azureDisk": {
                    "diskName": "d",
                    "diskURI": "u",
                    "cachingMode": "ReadWrite",
                    "fsType": "",
                    "readOnly": False,
                    "kind": "Shared",
                }
            },
        ),
        (
            {"iscsi": {"iqn": "q", "lun": 0, "targetPortal": "t"}},
            {"iscsi": {"iqn": "q", "lun": 0, "targetPortal": "t", "iscsiInterface": "default"}},
        ),
    ],
)
def test_volumes_are_defaulted(source: dict[str, Any], completed: dict[str, Any]) -> None:
    assert volume_with(**source) == completed


def test_amounts_below_milli_are_rounded_up() -> None:
    limits = container_with(resources={"limits": {"cpu": "100u", "memory": "1"}})["resources"]["limits"]
    assert limits == {"cpu": "1m", "memory": "1"}


def test_pod_ip_and_pod_ips_agree() -> None:
    only_single = core_v1.Pod(status=core_v1.PodStatus(pod_ip="10.0.0.1"))
    only_list = core_v1.Pod(status=core_v1.PodStatus(pod_ips=(core_v1.PodIP(ip="10.0.0.2"), core_v1.PodIP(ip="::2"))))
    different = core_v1.Pod(status=core_v1.PodStatus(pod_ip="10.0.0.3", pod_ips=(core_v1.PodIP(ip="10.0.0.4"),)))
    for pod in (only_single, only_list, different):
        apply_defaults(pod)
    assert only_single.status.pod_ips == (core_v1.PodIP(ip="10.0.0.1"),)
    assert only_list.status.pod_ip == "10.0.0.2"
    assert different.status.pod_ips == (core_v1.PodIP(ip="10.0.0.3"),)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("localhost:5000/nginx", "Always"),
        ("registry.example.com:443/team/nginx:v1", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "Always"),
        ("Nginx", "IfNotPresent"),
        ("", "IfNotPresent"),
        (" nginx", "IfNotPresent"),
        ("a" * 64, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_from_the_tag(image: str, policy: str) -> None:
    assert pull_policy_of(image) == policy


def test_deployment_defaults_to_rolling_updates_of_25_percent() -> None:
    deployment = apps_v1.Deployment()
    apply_defaults(deployment)
    spec = codec.to_plain(deployment)["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]


def test_a_recreated_deployment_has_no_rolling_parameters() -> None:
    deployment = apps_v1.Deployment(spec=apps_v1.DeploymentSpec(strategy=apps_v1.DeploymentStrategy(type="Recreate")))
    apply_defaults(deployment)
    assert codec.to_plain(deployment)["spec"]["strategy"] == {"type": "Recreate"}


def test_a_daemon_set_replaces_one_pod_at_a_time() -> None:
    daemon_set = apps_v1.DaemonSet()
    apply_defaults(daemon_set)
    assert codec.to_plain(daemon_set)["spec"]["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }


def test_unused_daemon_set_strategy_parameters_are_zero() -> None:
    strategy = apps_v1.DaemonSetUpdateStrategy(type="OnDelete", rolling_update=apps_v1.RollingUpdateDaemonSet())
    daemon_set = apps_v1.DaemonSet(spec=apps_v1.DaemonSetSpec(update_strategy=strategy))
    apply_defaults(daemon_set)
    assert codec.to_plain(strategy)["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 0}


def test_stateful_set_defaults_to_ordered_and_retained_claims() -> None:
    stateful_set = apps_v1.StatefulSet(
        spec=apps_v1.StatefulSetSpec(volume_claim_templates=(core_v1.PersistentVolumeClaim(),))
    )
    apply_defaults(stateful_set)
    spec = codec.to_plain(stateful_set)["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert spec["volumeClaimTemplates"][0]["spec"]["volumeMode"] == "Filesystem"
    assert spec["volumeClaimTemplates"][0]["status"]["phase"] == "Pending"


def test_stateful_set_with_a_strategy_gets_no_parameters() -> None:
    strategy = apps_v1.StatefulSetUpdateStrategy(type="RollingUpdate")
    apply_defaults(apps_v1.StatefulSet(spec=apps_v1.StatefulSetSpec(update_strategy=strategy)))
    assert codec.to_plain(strategy) == {"type": "RollingUpdate"}


@pytest.mark.parametrize(
    ("said", "completions", "parallelism"),
    [({}, 1, 1), ({"completions": 5}, 5, 1), ({"parallelism": 3}, None, 3)],
)
def test_a_job_runs_once_unless_it_is_a_work_queue(
    said: dict[str, int], completions: int | None, parallelism: int
) -> None:
    job = codec.from_plain({"spec": said}, batch_v1.Job)
    apply_defaults(job)
    assert (job.spec.completions, job.spec.parallelism) == (completions, parallelism)


def test_job_gets_the_labels_of_its_template() -> None:
    job = codec.from_plain({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}, batch_v1.Job)
    apply_defaults(job)
    assert job.metadata.labels == {"a": "b"}


def test_job_limits_and_policies_depend_on_each_other() -> None:
    plain, indexed = batch_v1.Job(), batch_v1.Job(spec=batch_v1.JobSpec(backoff_limit_per_index=1))
    policy = codec.from_plain(
        {"spec": {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "X"}]}]}}},
        batch_v1.Job,
    )
    for job in (plain, indexed, policy):
        apply_defaults(job)
    assert (plain.spec.backoff_limit, indexed.spec.backoff_limit) == (6, 2**31 - 1)
    assert plain.spec.pod_replacement_policy == "TerminatingOrFailed"
    assert policy.spec.pod_replacement_policy == "Failed"
    assert codec.to_plain(policy)["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"] == [
        {"type": "X", "status": "True"}
    ]


def test_a_cron_job_defaults_its_pods_but_not_its_job() -> None:
    cron_job = batch_v1.CronJob()
    apply_defaults(cron_job)
    spec = cron_job.spec
    assert (spec.concurrency_policy, spec.suspend) == ("Allow", False)
    assert (spec.successful_jobs_history_limit, spec.failed_jobs_history_limit) == (3, 1)
    assert spec.job_template.spec.backoff_limit is None
    assert spec.job_template.spec.template.spec.restart_policy == "Always"
