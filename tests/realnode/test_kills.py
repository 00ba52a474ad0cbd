# SPDX-License-Identifier: Apache-2.0
"""Kills of the kubelet and of the container runtime at random moments: pods must not notice.

`KUBELOOP_KILLS=200 make test-realnode ARGS="-k kills"` kills more often than CI does.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, facts_of, pod, serve

pytestmark = pytest.mark.realnode
KILLS = int(os.environ.get("KUBELOOP_KILLS", "6"))


def test_kills_restart_no_container(node: RealNode) -> None:
    chance = random.Random(KILLS)
    probe = {"readinessProbe": {"httpGet": {"path": "/page", "port": 8080}, "periodSeconds": 1}}
    side = {"restartPolicy": "Always"}
    node.apply(
        *(pod(f"plain-{number}", serve()) for number in range(3)),
        *(pod(f"probed-{number}", serve(**probe)) for number in range(3)),
        *(pod(f"side-{number}", serve(), initContainers=[container("s", "sleep 9999", **side)]) for number in range(2)),
    )
    names = [f"plain-{number}" for number in range(3)] + [f"probed-{number}" for number in range(3)]
    names += [f"side-{number}" for number in range(2)]
    before = {name: facts_of(node.wait_ready(name)) for name in names}
    for number in range(KILLS):
        node.stop_kubelet(signal.SIGKILL)
        if number % 4 == 3:
            node.runtime.kill()
            node.runtime.start()
        node.start_kubelet()
        time.sleep(chance.uniform(0.0, 3.0))  # the moment of the next kill is what is tried
    node.eventually(node.is_ready)
    node.apply(pod("after", serve()))
    node.wait_ready("after")
    assert {name: facts_of(node.pod(name)) for name in names} == before
