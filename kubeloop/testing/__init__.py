"""Tests of Kubernetes clients in milliseconds: whole clusters in the test's own process.

test ─▶ Cluster: client, add, settle, advance, faults ─▶ API server on the memory store, in virtual time
           │                                                  ▲
           ├── start(loop): the code under test, whose calls ─┘ may be hit by faults
           └── serve(): a port and a kubeconfig, in real time, for programs outside of the process

`plugin.py` has the pytest fixtures `cluster`, `make_cluster` and `live_cluster`; `builders.py` makes objects.
"""

from __future__ import annotations

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
from kubeloop.testing.cluster import Cluster

__all__ = [
    "Cluster",
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
