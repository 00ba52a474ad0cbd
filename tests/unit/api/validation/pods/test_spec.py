# SPDX-License-Identifier: Apache-2.0
"""Rules of pod specs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
FILE = {"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "K"}}}


def claims(*claims: dict[str, str]) -> dict[str, Any]:
    return {"spec.resourceClaims": list(claims)}


def dns(**config: Any) -> dict[str, Any]:
    return {"spec.dnsConfig": config}


CASES = [
    *creates("pods", POD, [
        (claims({"name": "", "resourceClaimName": "a"}), ["spec.resourceClaims[0].name: Required value"]),
        (claims({"name": "A_", "resourceClaimName": "a"}),
            ['spec.resourceClaims[0].name: Invalid value: "A_": ' + DNS_LABEL]),
        (claims({"name": "a", "resourceClaimName": "a"}, {"name": "a", "resourceClaimName": "a"}),
            ['spec.resourceClaims[1].name: Duplicate value: "a"']),
        (claims({"name": "a"}),
            ["spec.resourceClaims[0]: Invalid value: "
             '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: '
             "`resourceClaimName`, `resourceClaimTemplateName`"]),
        (claims({"name": "a", "resourceClaimName": "a", "resourceClaimTemplateName": "a"}),
            ["spec.resourceClaims[0]: Invalid value: "
             '{"Name":"a","ResourceClaimName":"a","ResourceClaimTemplateName":"a"}: at most one of '
             "`resourceClaimName` or `resourceClaimTemplateName` may be specified"]),
        (claims({"name": "a", "resourceClaimName": "A_"}),
            ['spec.resourceClaims[0].resourceClaimName: Invalid value: "A_": ' + DNS_SUBDOMAIN]),
        (claims({"name": "a", "resourceClaimTemplateName": "A_"}),
            ['spec.resourceClaims[0].resourceClaimTemplateName: Invalid value: "A_": ' + DNS_SUBDOMAIN]),
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "m"}}, "spec.nodeName": "n",
          **claims({"name": "a", "resourceClaimName": "a"})},
          ["[]: Forbidden: static pods do not support resource claims"]),
        ({"spec.hostNetwork": True, "spec.containers.0.ports": [{"containerPort": 1, "hostPort": 2}]},
            ["spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when "
             "`hostNetwork` is true"]),
        ({"spec.restartPolicy": "R"},
            ['spec.restartPolicy: Unsupported value: "R": supported values: "Always", "OnFailure", "Never"']),
        ({"spec.dnsPolicy": "D"},
            ['spec.dnsPolicy: Unsupported value: "D": supported values: "ClusterFirstWithHostNet", '
             '"ClusterFirst", "Default", "None"']),
        ({"spec.securityContext": {"fsGroup": -1}},
            ["spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        ({"spec.shareProcessNamespace": True, "spec.hostPID": True},
            ["spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be "
             "enabled"]),
        ({"spec.dnsPolicy": "None"},
            ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
        ({"spec.dnsPolicy": "None", **dns()},
            ["spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when "
             "`dnsPolicy` is None"]),
        (dns(nameservers=["1.1.1.1"] * 4),
            ['spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.1","1.1.1.1","1.1.1.1"]: must not '
             "have more than 3 nameservers"]),
        (dns(nameservers=["x"]),
            ['spec.dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"]),
        (dns(searches=["a"] * 33),
            ["spec.dnsConfig.searches: Invalid value: "
             '["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"'
             ',"a","a","a","a","a","a","a","a","a","a"]: must not have more than 32 search paths']),
        (dns(searches=[".".join(["a" * 60] * 4)] * 9),
            ["spec.dnsConfig.searches: Invalid value: "
             '["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             '.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "a.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'a","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaa","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaaaa"]: must not have more than 2048 characters (including spaces) in the search list']),
        (dns(searches=["A!"]),
            ['spec.dnsConfig.searches[0]: Invalid value: "A!": a lowercase RFC 1123 subdomain must consist of '
             "lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric "
             "character (e.g. 'example.com', regex used for validation is "
             "'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"]),
        (dns(options=[{"name": ""}]), ["spec.dnsConfig.options[0]: Required value: must not be empty"]),
        ({"spec.hostUsers": False, "spec.hostNetwork": True},
            ["spec.hostNetwork: Forbidden: when `hostUsers` is false"]),
        ({"spec.hostUsers": False, "spec.hostPID": True}, ["spec.HostPID: Forbidden: when `hostUsers` is false"]),
        ({"spec.hostUsers": False, "spec.hostIPC": True}, ["spec.HostIPC: Forbidden: when `hostUsers` is false"]),
        ({"spec.hostUsers": False, "spec.volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "p"}}],
          "spec.containers.0.volumeDevices": [{"name": "v", "devicePath": "/v"}]},
          ["spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false"]),
        ({"spec.hostnameOverride": "h", "spec.setHostnameAsFQDN": True},
            ["spec.hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true"]),
        ({"spec.hostnameOverride": "h", "spec.hostNetwork": True},
            ["spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"]),
        ({"spec.hostnameOverride": "H_"}, ['spec.hostnameOverride: Invalid value: "H_": ' + DNS_SUBDOMAIN]),
        ({"spec.hostnameOverride": "h" * 65}, ["spec.hostnameOverride: Too long: may not be more than 64 bytes"]),
        ({"spec.activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"]),
        ({"spec.nodeSelector": {"a b": "c"}}, ['spec.nodeSelector: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            [("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required "
             "value: can not be empty"),
             ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid "
             'value: "": name part must be non-empty'),
             ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
             '.topologyKey: Invalid value: "": ' + QUALIFIED_NAME)]),
        ({"spec.readinessGates": [{"conditionType": "a b"}]},
            ['spec.readinessGates[0].conditionType: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.schedulingGates": [{"name": "a b"}]},
            ['spec.schedulingGates[0]: Invalid value: "a b": ' + QUALIFIED_NAME]),
        ({"spec.schedulingGates": [{"name": "a"}, {"name": "a"}]}, ['spec.schedulingGates[1]: Duplicate value: "a"']),
        ({"spec.overhead": {"cpu": "-1"}},
            ['spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"spec.preemptionPolicy": "P"},
            ['spec.preemptionPolicy: Unsupported value: "P": supported values: "PreemptLowerPriority", "Never"']),
        ({"spec.serviceAccountName": "S_"}, ['spec.serviceAccountName: Invalid value: "S_": ' + DNS_SUBDOMAIN]),
        ({"spec.nodeName": "N_"}, ['spec.nodeName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        ({"spec.runtimeClassName": "R_"}, ['spec.runtimeClassName: Invalid value: "R_": ' + DNS_SUBDOMAIN]),
        ({"spec.hostname": "H_"}, ['spec.hostname: Invalid value: "H_": ' + DNS_LABEL]),
        ({"spec.subdomain": "S_"}, ['spec.subdomain: Invalid value: "S_": ' + DNS_LABEL]),
        ({"spec.hostAliases": [{"ip": "x"}]},
            ['spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or '
             "2001:db8::ffff)"]),
        ({"spec.hostAliases": [{"ip": "1.1.1.1", "hostnames": ["H_"]}]},
            ['spec.hostAliases[0].hostnames[0]: Invalid value: "H_": ' + DNS_SUBDOMAIN]),
        ({"spec.containers.0.env": [FILE]},
            ['spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"']),
        ({"spec.containers.0.env": [FILE], "spec.volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
            ['spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume '
             "must be of type emptyDir"]),
        ({"spec.initContainers": [{"name": "i", "image": "i", "env": [FILE]}]},
            ['spec.initContainers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: "v"']),
    ]),
    *creates("pods", POD, [
        ({"spec.schedulingGroup": {}},
            ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"]),
        ({"spec.schedulingGroup": {"podGroupName": "G_"}},
            ['spec.schedulingGroup.podGroupName: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
    ], ALL_FEATURES),
    *creates("runtimeclasses.node.k8s.io", {"handler": "h"}, [
        ({"overhead": {"podFixed": {"cpu": "-1"}}},
            ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_specs_are_reported(case: Case) -> None:
    assert case.found() == case.errors
