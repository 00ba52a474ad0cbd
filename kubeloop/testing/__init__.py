# SPDX-License-Identifier: Apache-2.0
"""Tests of Kubernetes clients in milliseconds: whole clusters in the test's own process.

test ─▶ Cluster: client, add, settle, advance, faults ─▶ API server on the memory store, in virtual time
           │                                                  ▲
           ├── start(loop): the code under test, whose calls ─┘ may be hit by faults
           └── serve(): a port and a kubeconfig, in real time, for programs outside of the process

`plugin.py` has the pytest fixtures `cluster`, `make_cluster` and `live_cluster`; `builders.py` makes objects.
ChaosPlane runs a whole highly available control plane in processes of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubeloop.testing.builders import (
    config_map,
    container,
    cron_job,
    daemon_set,
    deployment,
    job,
    metadata,
    namespace,
    node,
    persistent_volume_claim,
    pod,
    replica_set,
    secret,
    service,
    service_account,
    stateful_set,
)
from kubeloop.testing.cache_guard import CacheMutatedError
from kubeloop.testing.close_checks import ClusterCheckError
from kubeloop.testing.cluster import Cluster
from kubeloop.testing.faults import ClusterFaults, Fault
from kubeloop.testing.hosted_loops import LoopEndedError, UnknownKindError
from kubeloop.testing.look import ClusterAssertionError

if TYPE_CHECKING:
    from kubeloop.chaos.plan import ChaosPlan, PlaneConfig
    from kubeloop.chaos.plane import ChaosPlane
    from kubeloop.kubelet.agent import NodeAgent
    from kubeloop.kubelet.events.pod_events import EventLevel
    from kubeloop.kubelet.node_status.registration import NodeShape
    from kubeloop.testing.chaos import ChaosSession
    from kubeloop.testing.port import ClusterAddress

__all__ = [
    "CacheMutatedError",
    "ChaosPlan",
    "ChaosPlane",
    "ChaosSession",
    "Cluster",
    "ClusterAddress",
    "ClusterAssertionError",
    "ClusterCheckError",
    "ClusterFaults",
    "EventLevel",
    "Fault",
    "LoopEndedError",
    "NodeAgent",
    "NodeShape",
    "PlaneConfig",
    "UnknownKindError",
    "config_map",
    "container",
    "cron_job",
    "daemon_set",
    "deployment",
    "job",
    "metadata",
    "namespace",
    "node",
    "persistent_volume_claim",
    "pod",
    "replica_set",
    "secret",
    "service",
    "service_account",
    "stateful_set",
]

# Loaded lazily: most tests need neither chaos nor nodes nor a port.
_LATER = {
    "ChaosPlan": "kubeloop.chaos.plan",
    "ChaosPlane": "kubeloop.chaos.plane",
    "ChaosSession": "kubeloop.testing.chaos",
    "ClusterAddress": "kubeloop.testing.port",
    "EventLevel": "kubeloop.kubelet.events.pod_events",
    "NodeAgent": "kubeloop.kubelet.agent",
    "NodeShape": "kubeloop.kubelet.node_status.registration",
    "PlaneConfig": "kubeloop.chaos.plan",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
