# SPDX-License-Identifier: Apache-2.0
"""Rules of probes, lifecycle hooks and stop signals."""

from __future__ import annotations

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates

POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30}}
C = "spec.containers.0."
PROBE = {"exec": {"command": ["x"]}}
GET = {"path": "/", "port": 1}

CASES = [
    *creates("pods", POD, [
        ({C + "livenessProbe": {}},
            ["spec.containers[0].livenessProbe: Required value: must specify a handler type"]),
        ({C + "livenessProbe": {**PROBE, "successThreshold": 2}},
            ["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"]),
        ({C + "readinessProbe": {}},
            ["spec.containers[0].readinessProbe: Required value: must specify a handler type"]),
        ({C + "readinessProbe": {**PROBE, "terminationGracePeriodSeconds": 1}},
            ["spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be "
             "set for readinessProbes"]),
        ({C + "startupProbe": {**PROBE, "successThreshold": 2}},
            ["spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1"]),
        ({C + "readinessProbe": {**PROBE, "initialDelaySeconds": -1}},
            ["spec.containers[0].readinessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or "
             "equal to 0"]),
        ({C + "readinessProbe": {**PROBE, "timeoutSeconds": -1}},
            ["spec.containers[0].readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or "
             "equal to 0"]),
        ({C + "readinessProbe": {**PROBE, "periodSeconds": -1}},
            ["spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal "
             "to 0"]),
        ({C + "readinessProbe": {**PROBE, "successThreshold": -1}},
            ["spec.containers[0].readinessProbe.successThreshold: Invalid value: -1: must be greater than or "
             "equal to 0"]),
        ({C + "readinessProbe": {**PROBE, "failureThreshold": -1}},
            ["spec.containers[0].readinessProbe.failureThreshold: Invalid value: -1: must be greater than or "
             "equal to 0"]),
        ({C + "livenessProbe": {**PROBE, "terminationGracePeriodSeconds": 0}},
            ["spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater "
             "than 0"]),
        ({C + "readinessProbe": {"exec": {}}}, ["spec.containers[0].readinessProbe.exec.command: Required value"]),
        ({C + "readinessProbe": {"httpGet": {"port": 0}}},
            ["spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, "
             "inclusive"]),
        ({C + "readinessProbe": {"httpGet": {**GET, "port": "A_"}}},
            [('spec.containers[0].readinessProbe.httpGet.port: Invalid value: "A_": must contain only '
             "alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
             ('spec.containers[0].readinessProbe.httpGet.port: Invalid value: "A_": must contain at least one '
             "letter (a-z)")]),
        ({C + "readinessProbe": {"httpGet": {**GET, "scheme": "S"}}},
            ['spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "S": supported values: '
             '"HTTP", "HTTPS"']),
        ({C + "readinessProbe": {"httpGet": {**GET, "httpHeaders": [{"name": "a b", "value": "v"}]}}},
            ['spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header '
             "must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation "
             "is '[-A-Za-z0-9]+')"]),
        ({C + "readinessProbe": {"tcpSocket": {"port": 0}}},
            ["spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, "
             "inclusive"]),
        ({C + "readinessProbe": {"grpc": {"port": 65536}}},
            ["spec.containers[0].readinessProbe.grpc.port: Invalid value: 65536: must be between 1 and 65535, "
             "inclusive"]),
        ({C + "readinessProbe": {**PROBE, "httpGet": GET}},
            ["spec.containers[0].readinessProbe.httpGet: Forbidden: may not specify more than 1 handler type"]),
        ({C + "readinessProbe": {**PROBE, "tcpSocket": {"port": 1}}},
            ["spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"]),
        ({C + "readinessProbe": {**PROBE, "grpc": {"port": 1}}},
            ["spec.containers[0].readinessProbe.grpc: Forbidden: may not specify more than 1 handler type"]),
        ({C + "lifecycle": {"postStart": {}}},
            ["spec.containers[0].lifecycle.postStart: Required value: must specify a handler type"]),
        ({C + "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}},
            ["spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
             "terminationGracePeriodSeconds (30)"]),
        ({C + "lifecycle": {"preStop": {"sleep": {"seconds": -1}}}},
            ["spec.containers[0].lifecycle.preStop.sleep: Invalid value: -1: must be non-negative and less than "
             "terminationGracePeriodSeconds (30)"]),
        ({C + "lifecycle": {"preStop": {**PROBE, "sleep": {"seconds": 1}}}},
            ["spec.containers[0].lifecycle.preStop.sleep: Forbidden: may not specify more than 1 handler type"]),
    ]),
    *creates("pods", POD, [
        ({C + "lifecycle": {"preStop": PROBE, "stopSignal": "SIGTERM"}},
            ["spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty "
             "`spec.os.name`"]),
        ({"spec.os": {"name": "windows"}, C + "lifecycle": {"preStop": PROBE, "stopSignal": "SIGUSR1"}},
            ['spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGUSR1": supported values: '
             '"SIGKILL", "SIGTERM"']),
        ({C + "readinessProbe": {"httpGet": {**GET, "protocol": "P"}}},
            ['spec.containers[0].readinessProbe.httpGet.protocol: Unsupported value: "P": supported values: '
             '"HTTP1", "HTTP2"']),
        ({C + "readinessProbe": {"httpGet": {**GET, "protocol": "HTTP2", "scheme": "HTTPS"}}},
            ['spec.containers[0].readinessProbe.httpGet.protocol: Invalid value: "HTTP2": is only supported '
             "with HTTP (H2C)"]),
        ({C + "readinessProbe": {"httpGet": {**GET, "protocol": "HTTP2", "host": "h"}}},
            ['spec.containers[0].readinessProbe.httpGet.host: Invalid value: "h": must be empty when `protocol` '
             'is "HTTP2"']),
        ({C + "readinessProbe": {"grpc": {"port": 1, "mode": "M"}}},
            ['spec.containers[0].readinessProbe.grpc.mode: Unsupported value: "M": supported values: '
             '"Plaintext", "TLS"']),
    ], ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_handlers_are_reported(case: Case) -> None:
    assert case.found() == case.errors
