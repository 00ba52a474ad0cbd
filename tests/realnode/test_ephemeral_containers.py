# SPDX-License-Identifier: Apache-2.0
"""Tests of ephemeral containers in real pods."""

from __future__ import annotations

import pytest

from tests.realnode.images import BUSYBOX
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod

pytestmark = pytest.mark.realnode


def test_ephemeral_container_sees_the_processes_of_its_target(node: RealNode) -> None:
    node.apply(pod("target", container("c", "exec sleep 12345")))
    node.wait_ready("target")
    command = ("debug", "target", f"--image={BUSYBOX}", "--target=c", "-c", "look", "--", "ps", "-o", "args")
    node.kubectl(*command)
    node.eventually(
        lambda: node.statuses("target", "ephemeralContainerStatuses").get("look", {}).get("state", {}).get("terminated")
    )
    assert "sleep 12345" in node.kubectl("logs", "target", "-c", "look").splitlines()
