# SPDX-License-Identifier: Apache-2.0
"""Containers that were created, and whose start was interrupted, do not keep their pod."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory
from kubeloop.kubelet.cri.config.paths import NodePaths
from kubeloop.kubelet.cri.messages.container import ContainerState, ContainerStatus
from kubeloop.kubelet.cri.runtime import CriRuntime, NodeFacts
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime, labels_of

POD = Pod(metadata=ObjectMeta(name="pod-u", namespace="ns", uid="u"))


def new_runtime(fake: FakeRuntime) -> CriRuntime:
    facts = NodeFacts(
        NodePaths(Path("/none"), Path("/none")),
        ("10.0.0.2",),
        MachineMemory(1),
        "cluster.local",
        lambda pod: None,
        dict,
        tuple,
    )
    parts = SimpleNamespace(resources=SimpleNamespace(pods=None), actuated=SimpleNamespace(get=lambda uid: None))
    return CriRuntime(fake.as_service(), "containerd://1", facts, cast(Any, parts), lambda key: None)


def test_container_whose_start_was_interrupted_is_removed() -> None:
    fake = FakeRuntime()
    fake.add_sandbox("s", "u")
    for id, state in (("created", ContainerState.CREATED), ("running", ContainerState.RUNNING)):
        fake.add_container(ContainerStatus(id=id, state=state, created_at=1, labels=labels_of("u", id)), "s")
    seen = asyncio.run(new_runtime(fake).get_pod_status(POD))
    assert (set(seen.runs), set(fake.statuses)) == ({"running"}, {"running"})
