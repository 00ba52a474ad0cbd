# SPDX-License-Identifier: Apache-2.0
"""Rules of Windows pods and of Windows options."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_SUBDOMAIN

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
WINDOWS = {"spec": {**POD["spec"], "os": {"name": "windows"}}}
LINUX = {"spec": {**POD["spec"], "os": {"name": "linux"}}}
C = "spec.containers.0."
INIT = {"name": "i", "image": "i"}
HOST = {"windowsOptions": {"hostProcess": True}}


def options(**fields: Any) -> dict[str, Any]:
    return {"spec.securityContext": {"windowsOptions": fields}}


CASES = [
    *creates("pods", POD, [
        ({"spec.os": {"name": ""}}, ["spec.os.name: Required value"]),
        ({"spec.os": {"name": "plan9"}},
            ['spec.os: Unsupported value: "plan9": supported values: "linux", "windows"']),
        ({"spec.securityContext": HOST, "spec.hostNetwork": True,
          C + "securityContext": {"windowsOptions": {"hostProcess": False}}},
          ["spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod "
           "hostProcess value must be identical if both are specified, was true"]),
        ({C + "securityContext": HOST, "spec.hostNetwork": True, "spec.initContainers": [INIT]},
            ['spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be '
             "HostProcess containers"]),
        ({"spec.securityContext": HOST},
            ["spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess "
             "containers"]),
        (options(gmsaCredentialSpecName="N_"),
            ['spec.securityContext.windowsOptions.gmsaCredentialSpecName: Invalid value: "N_": ' + DNS_SUBDOMAIN]),
        (options(gmsaCredentialSpec=""),
            ['spec.securityContext.windowsOptions.gmsaCredentialSpec: Invalid value: "": gmsaCredentialSpec '
             "cannot be an empty string"]),
        (options(runAsUserName=""),
            ['spec.securityContext.windowsOptions.runAsUserName: Invalid value: "": runAsUserName cannot be an '
             "empty string"]),
        (options(runAsUserName="a\nb"),
            ['spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\nb": runAsUserName cannot '
             "contain control characters"]),
        (options(runAsUserName=r"a\b\c"),
            ['spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\\\b\\\\c": runAsUserName '
             "cannot contain more than one backslash"]),
        (options(runAsUserName="\\u"),
            ["spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"\\\\u\": runAsUserName's "
             "Domain doesn't match the NetBios nor the DNS format"]),
        (options(runAsUserName="d" * 256 + r"\u"),
            [("spec.securityContext.windowsOptions.runAsUserName: Invalid value: "
             '"ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd'
             "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
             "ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd\\\\u\": runAsUserName's "
             "Domain length must be under 256 characters"),
             ("spec.securityContext.windowsOptions.runAsUserName: Invalid value: "
             '"ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd'
             "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
             "ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd\\\\u\": runAsUserName's "
             "Domain doesn't match the NetBios nor the DNS format")]),
        (options(runAsUserName="d\\"),
            ["spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"d\\\\\": runAsUserName's User "
             "cannot be empty"]),
        (options(runAsUserName="u" * 105),
            ["spec.securityContext.windowsOptions.runAsUserName: Invalid value: "
             '"uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu'
             "uuuuuuuuuuuuuu\": runAsUserName's User length must not be longer than 104 characters"]),
        (options(runAsUserName=". ."),
            ["spec.securityContext.windowsOptions.runAsUserName: Invalid value: \". .\": runAsUserName's User "
             "cannot contain only periods or spaces"]),
        (options(runAsUserName="u@v"),
            ["spec.securityContext.windowsOptions.runAsUserName: Invalid value: \"u@v\": runAsUserName's User "
             'cannot contain the following characters: "/\\:;|=,+*?<>@[]']),
    ]),
    *creates("pods", LINUX, [
        (options(),
            ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"]),
        ({C + "securityContext": {"windowsOptions": {}}},
            ["spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a "
             "linux pod"]),
        ({"spec.initContainers": [{**INIT, "securityContext": {"windowsOptions": {}}}]},
            ["spec.initContainers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set "
             "for a linux pod"]),
    ]),
    *creates("pods", WINDOWS, [
        ({"spec.hostUsers": False}, ["spec.hostUsers: Forbidden: cannot be set for a windows pod"]),
        ({"spec.hostPID": True}, ["spec.hostPID: Forbidden: cannot be set for a windows pod"]),
        ({"spec.hostIPC": True}, ["spec.hostIPC: Forbidden: cannot be set for a windows pod"]),
        ({"spec.shareProcessNamespace": True},
            ["spec.shareProcessNamespace: Forbidden: cannot be set for a windows pod"]),
        ({"spec.securityContext": {
            "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {"level": "l"},
            "seccompProfile": {"type": "Unconfined"}, "fsGroup": 1, "fsGroupChangePolicy": "Always",
            "sysctls": [{"name": "a", "value": "1"}], "runAsUser": 1, "runAsGroup": 1, "supplementalGroups": [1],
            "supplementalGroupsPolicy": "Merge", "seLinuxChangePolicy": "Recursive"}},
            ["spec.securityContext.appArmorProfile: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.seLinuxOptions: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.seccompProfile: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.fsGroupChangePolicy: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.sysctls: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.runAsGroup: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.supplementalGroups: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.supplementalGroupsPolicy: Forbidden: cannot be set for a windows pod",
             "spec.securityContext.seLinuxChangePolicy: Forbidden: cannot be set for a windows pod"]),
        ({C + "securityContext": {
            "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {"level": "l"},
            "seccompProfile": {"type": "Unconfined"}, "capabilities": {"add": ["A"]}, "readOnlyRootFilesystem": True,
            "privileged": True, "allowPrivilegeEscalation": True, "procMount": "Default", "runAsUser": 1,
            "runAsGroup": 1}},
            ["spec.containers[0].securityContext.appArmorProfile: Forbidden: cannot be set for a windows pod",
             "spec.containers[0].securityContext.seLinuxOptions: Forbidden: cannot be set for a windows pod",
             "spec.containers[0].securityContext.seccompProfile: Forbidden: cannot be set for a windows pod",
             "spec.containers[0].securityContext.capabilities: Forbidden: cannot be set for a windows pod",
             ("spec.containers[0].securityContext.readOnlyRootFilesystem: Forbidden: cannot be set for a windows "
             "pod"),
             "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
             ("spec.containers[0].securityContext.allowPrivilegeEscalation: Forbidden: cannot be set for a "
             "windows pod"),
             "spec.containers[0].securityContext.procMount: Forbidden: cannot be set for a windows pod",
             "spec.containers[0].securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
             "spec.containers[0].securityContext.runAsGroup: Forbidden: cannot be set for a windows pod"]),
        ({"spec.initContainers": [{**INIT, "securityContext": {"privileged": True}}]},
            ["spec.initContainers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod"]),
    ]),
    *updates("pods", LINUX, [
        ({}, {"spec.ephemeralContainers": [
            {"name": "e", "image": "i", "securityContext": {"windowsOptions": {}}}]},
            ["spec.ephemeralContainers[0].securityContext.windowsOptions: Forbidden: windows options cannot be "
             "set for a linux pod"]),
    ], "ephemeralcontainers"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_windows_pods_are_reported(case: Case) -> None:
    assert case.found() == case.errors
