# SPDX-License-Identifier: Apache-2.0
"""Rules of APIServices."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import Case, creates, updates
from tests.unit.api.validation.messages import DNS_1035_LABEL, DNS_SUBDOMAIN

SERVICE = {
    "metadata": {"name": "v1.example.com"},
    "spec": {
        "group": "example.com",
        "version": "v1",
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
        "service": {"name": "n", "namespace": "n"},
    },
}

CASES = [
    *creates("apiservices.apiregistration.k8s.io", SERVICE, [
        ({"metadata": {"name": "v2.example.com"}},
            ['metadata.name: Invalid value: "v2.example.com": must be `spec.version+"."+spec.group`: '
             '"v1.example.com"']),
        ({"spec.group": "G_", "metadata": {"name": "v1.G_"}}, ['spec.group: Invalid value: "G_": ' + DNS_SUBDOMAIN]),
        ({"spec.group": "", "spec.version": "v2", "metadata": {"name": "v2."}},
            ["spec.group: Required value: only v1 may have an empty group and it better be legacy kube"]),
        ({"spec.version": "V_", "metadata": {"name": "V_.example.com"}},
            ['spec.version: Invalid value: "V_": ' + DNS_1035_LABEL]),
        ({"spec.groupPriorityMinimum": 20001},
            ["spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"]),
        ({"spec.versionPriority": 0},
            ["spec.versionPriority: Invalid value: 0: must be positive and less than 1000"]),
        ({"spec.service": None, "spec.caBundle": "YQ=="},
            ['spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle']),
        ({"spec.service": None, "spec.insecureSkipTLSVerify": True},
            ["spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
             "insecureSkipTLSVerify"]),
        ({"spec.service.namespace": ""}, ["spec.service.namespace: Required value"]),
        ({"spec.service.name": ""}, ["spec.service.name: Required value"]),
        ({"spec.service.port": 65536},
            ["spec.service.port: Invalid value: 65536: port is not valid: must be between 1 and 65535, inclusive"]),
        ({"spec.caBundle": "YQ==", "spec.insecureSkipTLSVerify": True},
            ["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"]),
    ]),
    *updates("apiservices.apiregistration.k8s.io", SERVICE, [
        ({}, {"spec.versionPriority": 0},
            ["spec.versionPriority: Invalid value: 0: must be positive and less than 1000"]),
    ]),
    *updates("apiservices.apiregistration.k8s.io", SERVICE, [
        ({}, {"status.conditions": [{"type": "Available", "status": "S"}]},
            ['status.conditions[0].status: Unsupported value: "S": supported values: "True", "False", "Unknown"']),
    ], "status"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_services_are_reported(case: Case) -> None:
    assert case.found() == case.errors
