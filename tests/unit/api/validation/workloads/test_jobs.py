# SPDX-License-Identifier: Apache-2.0
"""Rules of Jobs and of updates of their specs."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import QUALIFIED_NAME

JOB = {
    "spec": {
        "manualSelector": True,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
        },
    },
}
INDEXED = {"spec": {**JOB["spec"], "completionMode": "Indexed", "completions": 3, "parallelism": 3}}
GENERATED = {"metadata": {"uid": "u"}, "spec": {"template": JOB["spec"]["template"]}}
EXIT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
MANY = {"spec.completions": 100_001, "spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 1}

CASES = [
    *creates("jobs.batch", JOB, [
        ({"spec.parallelism": -1}, ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.completions": -1}, ["spec.completions: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.activeDeadlineSeconds": -1},
            ["spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.backoffLimit": -1}, ["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.ttlSecondsAfterFinished": -1},
            ["spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.managedBy": "m"},
            ['spec.managedBy: Invalid value: "m": must be a domain-prefixed path (such as "acme.io/foo")']),
        ({"spec.managedBy": "example.com/" + "m" * 60}, ["spec.managedBy: Too long: may not be more than 63 bytes"]),
        ({"spec.completionMode": "M"},
            ['spec.completionMode: Unsupported value: "M": supported values: "NonIndexed", "Indexed"']),
        ({"spec.backoffLimitPerIndex": 1},
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"]),
        ({"spec.maxFailedIndexes": 1},
            ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
             "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode"]),
        ({"spec.podFailurePolicy": {"rules": [{**EXIT, "action": "A"}]}},
            ['spec.podFailurePolicy.rules[0].action: Unsupported value: "A": supported values: "Count", '
             '"FailIndex", "FailJob", "Ignore"']),
        ({"spec.successPolicy": {"rules": [{"succeededCount": 1}]}},
            ['spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
             "requires indexed completion mode"]),
        ({"spec.podReplacementPolicy": "P"},
            ['spec.podReplacementPolicy: Unsupported value: "P": supported values: "Failed", "TerminatingOrFailed"']),
        ({"spec.podReplacementPolicy": "TerminatingOrFailed", "spec.podFailurePolicy": {"rules": [EXIT]}},
            ['spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"']),
        ({"spec.template.spec.containers": []}, ["spec.template.spec.containers: Required value"]),
        ({"spec.template.spec.restartPolicy": "Always"},
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
        ({"spec.template.spec.restartPolicy": "R"},
            [('spec.template.spec.restartPolicy: Unsupported value: "R": supported values: "Always", '
             '"OnFailure", "Never"'),
             'spec.template.spec.restartPolicy: Unsupported value: "R": supported values: "OnFailure", "Never"']),
        ({"spec.template.spec.restartPolicy": "OnFailure", "spec.podFailurePolicy": {"rules": [EXIT]}},
            ['spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when '
             "podFailurePolicy is specified"]),
        ({"spec.selector": None},
            ["spec.selector: Required value",
             ('spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template '
             "`labels`")]),
        ({"spec.selector": {"matchLabels": {"a b": "c"}}},
            ['spec.selector.matchLabels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.selector": {"matchLabels": {"a": "c"}}},
            ['spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`']),
    ]),
    *creates("jobs.batch", INDEXED, [
        ({"spec.backoffLimitPerIndex": -1},
            ["spec.backoffLimitPerIndex: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": -1},
            ["spec.maxFailedIndexes: Invalid value: -1: must be greater than or equal to 0"]),
        ({"spec.maxFailedIndexes": 1},
            ["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified"]),
        ({"spec.completions": None}, ["spec.completions: Required value: when completion mode is Indexed"]),
        ({"spec.parallelism": 100_001},
            ["spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion "
             "mode is Indexed"]),
        ({"spec.backoffLimitPerIndex": 1, "spec.maxFailedIndexes": 4},
            ["spec.maxFailedIndexes: Invalid value: 4: must be less than or equal to completions"]),
        ({**MANY, "spec.maxFailedIndexes": 100_001},
            ["spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000",
             ("spec.maxFailedIndexes: Invalid value: 100001: must be less than or equal to 10000 when "
             "completions are above 100000 and used with backoff limit per index")]),
        ({**MANY, "spec.maxFailedIndexes": None},
            ["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"]),
        ({**MANY, "spec.parallelism": 10_001},
            ["spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are "
             "above 100000 and used with backoff limit per index"]),
        ({"spec.successPolicy": {"rules": []}},
            ["spec.successPolicy.rules: Required value: at least one rules must be specified when the "
             "successPolicy is specified"]),
        ({"metadata": {"name": "n" * 62}},
            ['metadata.name: Invalid value: "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn": '
             "will not able to create pod with invalid DNS label: "
             "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-2"]),
    ]),
    *creates("jobs.batch", GENERATED, [
        ({"spec.selector": {"matchLabels": {"a": "b"}}},
            ['spec.selector: Invalid value: {"matchLabels":{"a":"b","batch.kubernetes.io/controller-uid":"u"}}: '
             "`selector` not auto-generated"]),
        ({"spec.template.metadata": {"labels": {"controller-uid": "v"}}},
            ["spec.template.metadata.labels[controller-uid]: Invalid value: "
             '{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"x","controller-uid'
             "\":\"v\",\"job-name\":\"x\"}: must be 'u'"]),
    ]),
    *updates("jobs.batch", JOB, [
        ({}, {"spec.completions": 2}, ["spec.completions: Invalid value: 2: field is immutable"]),
        ({}, {"spec.backoffLimit": -1}, ["spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"]),
        ({}, {"spec.selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            ['spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Exists"}]}: field is '
             "immutable"]),
        ({}, {"spec.template.spec.containers.0.image": "j"},
            ["spec.template: Invalid value: "
             '{"labels":{"a":"b"},"Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"c","'
             'Image":"j","Command":null,"Args":null,"WorkingDir":"","Ports":null,"EnvFrom":null,"Env":null'
             ',"Resources":{"Limits":null,"Requests":null,"Claims":null},"ResizePolicy":null,"RestartPolic'
             'y":null,"RestartPolicyRules":null,"VolumeMounts":null,"VolumeDevices":null,"LivenessProbe":n'
             'ull,"ReadinessProbe":null,"StartupProbe":null,"Lifecycle":null,"TerminationMessagePath":"/de'
             'v/termination-log","TerminationMessagePolicy":"File","ImagePullPolicy":"Always","SecurityCon'
             'text":null,"Stdin":false,"StdinOnce":false,"TTY":false}],"EphemeralContainers":null,"Restart'
             'Policy":"Never","TerminationGracePeriodSeconds":30,"ActiveDeadlineSeconds":null,"DNSPolicy":'
             '"ClusterFirst","NodeSelector":null,"ServiceAccountName":"","DeprecatedServiceAccount":"","Au'
             'tomountServiceAccountToken":null,"NodeName":"","HostNetwork":false,"HostPID":false,"HostIPC"'
             ':false,"ShareProcessNamespace":null,"SecurityContext":{"SELinuxOptions":null,"WindowsOptions'
             '":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"SupplementalGroups":null,"Sup'
             'plementalGroupsPolicy":null,"FSGroup":null,"Sysctls":null,"FSGroupChangePolicy":null,"Seccom'
             'pProfile":null,"AppArmorProfile":null,"SELinuxChangePolicy":null},"ImagePullSecrets":null,"H'
             'ostname":"","Subdomain":"","Affinity":null,"SchedulerName":"default-scheduler","Tolerations"'
             ':null,"HostAliases":null,"PriorityClassName":"","Priority":null,"DNSConfig":null,"ReadinessG'
             'ates":null,"RuntimeClassName":null,"EnableServiceLinks":null,"PreemptionPolicy":null,"Overhe'
             'ad":null,"TopologySpreadConstraints":null,"SetHostnameAsFQDN":null,"OS":null,"HostUsers":nul'
             'l,"SchedulingGates":null,"ResourceClaims":null,"Resources":null,"HostnameOverride":null,"Sch'
             'edulingGroup":null,"EvictionResponders":null}}: field is immutable']),
        ({"spec.suspend": True}, {"spec.suspend": True, "spec.template.spec.containers.0.image": "j"},
            ["spec.template.spec: Invalid value: "
             '{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"c","Image":"j","Command":null,"'
             'Args":null,"WorkingDir":"","Ports":null,"EnvFrom":null,"Env":null,"Resources":{"Limits":null'
             ',"Requests":null,"Claims":null},"ResizePolicy":null,"RestartPolicy":null,"RestartPolicyRules'
             '":null,"VolumeMounts":null,"VolumeDevices":null,"LivenessProbe":null,"ReadinessProbe":null,"'
             'StartupProbe":null,"Lifecycle":null,"TerminationMessagePath":"/dev/termination-log","Termina'
             'tionMessagePolicy":"File","ImagePullPolicy":"Always","SecurityContext":null,"Stdin":false,"S'
             'tdinOnce":false,"TTY":false}],"EphemeralContainers":null,"RestartPolicy":"Never","Terminatio'
             'nGracePeriodSeconds":30,"ActiveDeadlineSeconds":null,"DNSPolicy":"ClusterFirst","NodeSelecto'
             'r":null,"ServiceAccountName":"","DeprecatedServiceAccount":"","AutomountServiceAccountToken"'
             ':null,"NodeName":"","HostNetwork":false,"HostPID":false,"HostIPC":false,"ShareProcessNamespa'
             'ce":null,"SecurityContext":{"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"Ru'
             'nAsGroup":null,"RunAsNonRoot":null,"SupplementalGroups":null,"SupplementalGroupsPolicy":null'
             ',"FSGroup":null,"Sysctls":null,"FSGroupChangePolicy":null,"SeccompProfile":null,"AppArmorPro'
             'file":null,"SELinuxChangePolicy":null},"ImagePullSecrets":null,"Hostname":"","Subdomain":"",'
             '"Affinity":null,"SchedulerName":"default-scheduler","Tolerations":null,"HostAliases":null,"P'
             'riorityClassName":"","Priority":null,"DNSConfig":null,"ReadinessGates":null,"RuntimeClassNam'
             'e":null,"EnableServiceLinks":null,"PreemptionPolicy":null,"Overhead":null,"TopologySpreadCon'
             'straints":null,"SetHostnameAsFQDN":null,"OS":null,"HostUsers":null,"SchedulingGates":null,"R'
             'esourceClaims":null,"Resources":null,"HostnameOverride":null,"SchedulingGroup":null,"Evictio'
             'nResponders":null}: field is immutable']),
        ({}, {"spec.podFailurePolicy": {"rules": [EXIT]}},
            ["spec.podFailurePolicy: Invalid value: "
             '{"Rules":[{"Action":"FailJob","OnExitCodes":{"ContainerName":null,"Operator":"In","Values":['
             '1]},"OnPodConditions":null}]}: field is immutable']),
        ({}, {"spec.managedBy": "example.com/m"},
            ['spec.managedBy: Invalid value: "example.com/m": field is immutable']),
        ({}, {"spec.completionMode": "Indexed", "spec.completions": 1},
            ['spec.completionMode: Invalid value: "Indexed": field is immutable']),
    ]),
    *updates("jobs.batch", INDEXED, [
        ({}, {"spec.completions": 4},
            ["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"]),
        ({}, {"spec.backoffLimitPerIndex": 1}, ["spec.backoffLimitPerIndex: Invalid value: 1: field is immutable"]),
        ({}, {"spec.successPolicy": {"rules": [{"succeededCount": 1}]}},
            ['spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: '
             "field is immutable"]),
        ({"metadata": {"name": "n" * 61}}, {"metadata": {"name": "n" * 61}, "spec.completions": 20,
                                            "spec.parallelism": 20},
                                            ["metadata.name: Invalid value: "
                                             '"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn": '
                                             "will not able to create pod with invalid DNS label: "
                                             "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn-19"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_jobs_are_reported(case: Case) -> None:
    assert case.found() == case.errors
