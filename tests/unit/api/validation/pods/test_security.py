# SPDX-License-Identifier: Apache-2.0
"""Rules of security contexts: users and groups, profiles, sysctls."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import Case, creates

POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


def of_container(**context: Any) -> dict[str, Any]:
    return {"spec.containers.0.securityContext": context}


def of_pod(**context: Any) -> dict[str, Any]:
    return {"spec.securityContext": context}


def sysctls(*names: str, **spec: Any) -> dict[str, Any]:
    fields = {f"spec.{name}": value for name, value in spec.items()}
    return {**of_pod(sysctls=[{"name": name, "value": "1"} for name in names]), **fields}


CASES = [
    *creates("pods", POD, [
        (of_container(runAsUser=-1),
            ["spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and "
             "2147483647, inclusive"]),
        (of_container(runAsGroup=2**31),
            ["spec.containers[0].securityContext.runAsGroup: Invalid value: 2147483648: must be between 0 and "
             "2147483647, inclusive"]),
        (of_container(procMount="P"),
            ['spec.containers[0].securityContext.procMount: Unsupported value: "P": supported values: '
             '"Default", "Unmasked"']),
        (of_container(procMount="Unmasked"),
            ['spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be '
             "false to use `Unmasked`"]),
        (of_container(seccompProfile={"type": ""}),
            ["spec.containers[0].securityContext.seccompProfile.type: Required value: type is required when "
             "seccompProfile is set"]),
        (of_container(seccompProfile={"type": "T"}),
            ['spec.containers[0].securityContext.seccompProfile.type: Unsupported value: "T": supported values: '
             '"Localhost", "RuntimeDefault", "Unconfined"']),
        (of_container(seccompProfile={"type": "Localhost"}),
            ["spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set "
             "when seccomp type is Localhost"]),
        (of_container(seccompProfile={"type": "Localhost", "localhostProfile": "/p"}),
            ['spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: "/p": must be '
             "a relative path"]),
        (of_container(seccompProfile={"type": "RuntimeDefault", "localhostProfile": "p"}),
            ["spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: "
             '{"Type":"RuntimeDefault","LocalhostProfile":"p"}: can only be set when seccomp type is Localhost']),
        (of_container(allowPrivilegeEscalation=False, privileged=True),
            ["spec.containers[0].securityContext: Invalid value: "
             '{"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUse'
             'r":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeE'
             'scalation":false,"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set '
             "`allowPrivilegeEscalation` to false and `privileged` to true"]),
        (of_container(allowPrivilegeEscalation=False, capabilities={"add": ["CAP_SYS_ADMIN"]}),
            ["spec.containers[0].securityContext: Invalid value: "
             '{"Capabilities":{"Add":["CAP_SYS_ADMIN"],"Drop":null},"Privileged":null,"SELinuxOptions":nul'
             'l,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRoot'
             'Filesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":null,"SeccompProfile":null,"Ap'
             'pArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` '
             "CAP_SYS_ADMIN"]),
        (of_container(windowsOptions={"runAsUserName": ""}),
            ['spec.containers[0].securityContext.windowsOptions.runAsUserName: Invalid value: "": runAsUserName '
             "cannot be an empty string"]),
        (of_container(appArmorProfile={"type": ""}),
            ["spec.containers[0].securityContext.appArmorProfile.type: Required value: type is required when "
             "appArmorProfile is set"]),
        (of_container(appArmorProfile={"type": "T"}),
            ['spec.containers[0].securityContext.appArmorProfile.type: Unsupported value: "T": supported '
             'values: "Localhost", "RuntimeDefault", "Unconfined"']),
        (of_container(appArmorProfile={"type": "Unconfined", "localhostProfile": "p"}),
            ['spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: "p": can only '
             "be set when AppArmor type is Localhost"]),
        (of_container(appArmorProfile={"type": "Localhost"}),
            ["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set "
             "when AppArmor type is Localhost"]),
        (of_container(appArmorProfile={"type": "Localhost", "localhostProfile": " p"}),
            ['spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: " p": must '
             "not be padded with whitespace"]),
        (of_container(appArmorProfile={"type": "Localhost", "localhostProfile": ""}),
            ["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set "
             "when AppArmor type is Localhost"]),
        (of_container(appArmorProfile={"type": "Localhost", "localhostProfile": "p" * 4096}),
            ["spec.containers[0].securityContext.appArmorProfile.localhostProfile: Too long: may not be more "
             "than 4095 bytes"]),
        (of_pod(fsGroup=-1),
            ["spec.securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        (of_pod(runAsUser=-1),
            ["spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        (of_pod(runAsGroup=-1),
            ["spec.securityContext.runAsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        (of_pod(supplementalGroups=[1, -1]),
            ["spec.securityContext.supplementalGroups[1]: Invalid value: -1: must be between 0 and 2147483647, "
             "inclusive"]),
        (of_pod(fsGroupChangePolicy="P"),
            ['spec.securityContext.fsGroupChangePolicy: Unsupported value: "P": supported values: "Always", '
             '"OnRootMismatch"']),
        (of_pod(supplementalGroupsPolicy="P"),
            ['spec.securityContext.supplementalGroupsPolicy: Unsupported value: "P": supported values: "Merge", '
             '"Strict"']),
        (of_pod(seLinuxChangePolicy="P"),
            ['spec.securityContext.seLinuxChangePolicy: Unsupported value: "P": supported values: '
             '"MountOption", "Recursive"']),
        (of_pod(seccompProfile={"type": "T"}),
            ['spec.securityContext.seccompProfile.type: Unsupported value: "T": supported values: "Localhost", '
             '"RuntimeDefault", "Unconfined"']),
        (of_pod(windowsOptions={"runAsUserName": ""}),
            ['spec.securityContext.windowsOptions.runAsUserName: Invalid value: "": runAsUserName cannot be an '
             "empty string"]),
        (of_pod(appArmorProfile={"type": "T"}),
            ['spec.securityContext.appArmorProfile.type: Unsupported value: "T": supported values: "Localhost", '
             '"RuntimeDefault", "Unconfined"']),
        (sysctls(""), ["spec.securityContext.sysctls[0].name: Required value"]),
        (sysctls("A"),
            ['spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and '
             "match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"]),
        (sysctls("a" * 254),
            ["spec.securityContext.sysctls[0].name: Invalid value: "
             '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must have at most 253 '
             "characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"]),
        (sysctls("a", "a"), ['spec.securityContext.sysctls[1].name: Duplicate value: "a"']),
        (sysctls("net.a", hostNetwork=True),
            ['spec.securityContext.sysctls[0].name: Invalid value: "net.a": may not be specified when '
             "'hostNetwork' is true"]),
        (sysctls("net/a", hostNetwork=True),
            ['spec.securityContext.sysctls[0].name: Invalid value: "net/a": may not be specified when '
             "'hostNetwork' is true"]),
        (sysctls("kernel.shmmax", hostIPC=True),
            ['spec.securityContext.sysctls[0].name: Invalid value: "kernel.shmmax": may not be specified when '
             "'hostIPC' is true"]),
        (sysctls("fs.mqueue.max", hostIPC=True),
            ['spec.securityContext.sysctls[0].name: Invalid value: "fs.mqueue.max": may not be specified when '
             "'hostIPC' is true"]),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_security_contexts_are_reported(case: Case) -> None:
    assert case.found() == case.errors
