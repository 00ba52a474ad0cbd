# SPDX-License-Identifier: Apache-2.0
"""Tests of `kubeloop why-pending` against a real server."""

from __future__ import annotations

import json

import pytest

from kubeloop.cli.main import main
from tests.e2e.conftest import make_namespace
from tests.e2e.plane import Plane


def test_output_has_a_remedy_for_every_node(server_alone: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    namespace = make_namespace(server_alone, "why-pending")
    status = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}
    server_alone.create("/api/v1/nodes", {"metadata": {"name": "why-n1"}, "spec": {"unschedulable": True}})
    server_alone.call("PATCH", "/api/v1/nodes/why-n1/status", {"status": status})
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    pod = {"metadata": {"name": "web"}, "spec": {"containers": [container]}}
    server_alone.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    asked = ["why-pending", "web", "-n", namespace, "--kubeconfig", str(server_alone.kubeconfig)]
    assert main([*asked, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    advice = {one["plugin"]: one["advice"] for one in told["rejections"] if one["node"] == "why-n1"}
    assert advice["NodeUnschedulable"] == "kubectl uncordon why-n1"
    assert "2 requested" in advice["NodeResourcesFit"]
    assert told["feasibleNodes"] == []
    assert main(["why-pending", "absent", *asked[2:]]) == 1
    assert 'pods "absent" not found' in capsys.readouterr().err
    server_alone.call("DELETE", "/api/v1/nodes/why-n1")
