# SPDX-License-Identifier: Apache-2.0
"""Jobs and cron jobs through kubectl, on the real program with simulated nodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import make_namespace
from tests.e2e.kubectl import WAIT, Kubectl
from tests.e2e.plane import Plane, eventually
from tests.skips import needs_kubectl

_numbers = itertools.count(1)

pytestmark = needs_kubectl()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with nodes; a test keeps to its own namespace."""
    plane = Plane(tmp_path_factory.mktemp("nodes"), "--ephemeral", "--nodes", "1")
    try:
        plane.start()
        yield plane
    finally:
        plane.close()


@pytest.fixture
def kubectl(nodes: Plane, kubectl_home: Path) -> Kubectl:
    return Kubectl(nodes.kubeconfig, make_namespace(nodes, f"jobs-{next(_numbers)}"), kubectl_home)


def test_kubectl_waits_for_a_job_and_deletes_it_with_its_pods(kubectl: Kubectl) -> None:
    kubectl("create", "job", "once", "--image=busybox", "--", "true")
    kubectl("wait", "job/once", "--for=condition=Complete", WAIT)
    assert kubectl("get", "job", "once", "-o", "jsonpath={.status.succeeded}") == "1"
    row = kubectl("get", "job", "once", "--no-headers").split()
    assert row[:3] == ["once", "Complete", "1/1"]
    kubectl("delete", "job", "once", "--wait")
    eventually(lambda: not kubectl("get", "pods", "-o", "name"))


def test_failed_job_has_a_reason(kubectl: Kubectl) -> None:
    kubectl("create", "job", "bad", "--image=busybox", "--", "sh", "-c", "exit 3")
    eventually(lambda: kubectl("get", "job", "bad", "-o", "jsonpath={.status.failed}") == "1")
    kubectl("patch", "job", "bad", "--type=merge", "-p", '{"spec": {"backoffLimit": 0}}')
    kubectl("wait", "job/bad", "--for=condition=Failed", WAIT)
    assert "BackoffLimitExceeded" in kubectl("describe", "job", "bad")


def test_job_is_created_from_a_cronjob(kubectl: Kubectl) -> None:
    kubectl("create", "cronjob", "yearly", "--image=busybox", "--schedule=@yearly", "--", "true")
    kubectl("create", "job", "now", "--from=cronjob/yearly")
    kubectl("wait", "job/now", "--for=condition=Complete", WAIT)
    eventually(lambda: kubectl("get", "cronjob", "yearly", "-o", "jsonpath={.status.lastSuccessfulTime}"))
    kubectl("delete", "cronjob", "yearly", "--wait")
    eventually(lambda: not kubectl("get", "jobs", "-o", "name"))
