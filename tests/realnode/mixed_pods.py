# SPDX-License-Identifier: Apache-2.0
"""Thirty pods of mixed kinds: restart policies, init containers, sidecars, probes, hooks, volumes, jobs."""

from __future__ import annotations

from typing import Any

from tests.realnode.test_pods import container, pod, serve

_PROBES = {
    "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    "readinessProbe": {"httpGet": {"path": "/page", "port": 8080}, "periodSeconds": 1},
    "livenessProbe": {"exec": {"command": ["cat", "/data/page"]}, "periodSeconds": 2},
}
_HOOKS = {
    "postStart": {"exec": {"command": ["sh", "-c", "echo started > /tmp/started"]}},
    "preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /tmp/stopping"]}},
}
_LIMITS = {"limits": {"cpu": "50m", "memory": "32Mi"}}
_SLEEP = "trap 'exit 0' TERM; while true; do sleep 1; done"
RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"


def mixed_objects() -> list[dict[str, Any]]:
    """Return the pods, and the objects that they need."""
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"}, "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sec"}, "stringData": {"key": "hidden"}},
        *(pod(f"plain-{at}", serve()) for at in range(2)),
        *(pod(f"probed-{at}", serve(**_PROBES)) for at in range(4)),
        *(_with_sidecar(f"side-{at}") for at in range(3)),
        *(_with_init(f"init-{at}") for at in range(3)),
        *(pod(f"hooked-{at}", serve(lifecycle=_HOOKS)) for at in range(2)),
        *(_with_volumes(f"volumes-{at}") for at in range(4)),
        *(pod(f"limited-{at}", serve(resources=_LIMITS)) for at in range(2)),
        pod("host", container("c", _SLEEP), hostNetwork=True),
        pod("two", serve(), container("d", _SLEEP)),
        pod("done", container("c", "exit 0"), restartPolicy="Never"),
        pod("done-later", container("c", "sleep 1"), restartPolicy="OnFailure"),
        pod("failed", container("c", "exit 3"), restartPolicy="Never"),
        pod("on-failure", container("c", _SLEEP), restartPolicy="OnFailure"),
        _job("finished", "exit 0"),
        _job("working", _SLEEP),
        _deployment("replicas", 2),
    ]


def expected_phases() -> dict[str, str]:
    """Return the phases that the pods reach, by the name or by the beginning of the name of generated ones."""
    counts = {"plain": 2, "probed": 4, "side": 3, "init": 3, "hooked": 2, "volumes": 4, "limited": 2}
    running = [f"{kind}-{at}" for kind, count in counts.items() for at in range(count)]
    phases = dict.fromkeys((*running, "host", "two", "on-failure", "working-", "replicas-"), RUNNING)
    return {**phases, "done": SUCCEEDED, "done-later": SUCCEEDED, "finished-": SUCCEEDED, "failed": FAILED}


def _with_sidecar(name: str) -> dict[str, Any]:
    probe = {"startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}}
    return pod(name, serve(), initContainers=[container("s", _SLEEP, restartPolicy="Always", **probe)])


def _with_init(name: str) -> dict[str, Any]:
    shared = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
    init = [container(f"i{at}", f"echo {at} >> /d/log", **shared) for at in range(2)]
    return pod(name, container("c", _SLEEP, **shared), initContainers=init, volumes=[{"name": "d", "emptyDir": {}}])


def _with_volumes(name: str) -> dict[str, Any]:
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}}
    volumes = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "cfg", "configMap": {"name": "cfg"}},
        {"name": "sec", "secret": {"secretName": "sec"}},
        {"name": "all", "projected": {"sources": [token, {"configMap": {"name": "cfg"}}]}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    mounts.append({"name": "disk", "mountPath": "/sub", "subPath": "a/b"})
    ready = {"readinessProbe": {"exec": {"command": ["cat", "/sec/key", "/cfg/a", "/all/token"]}, "periodSeconds": 1}}
    return pod(name, container("c", _SLEEP, volumeMounts=mounts, **ready), volumes=volumes)


def _template(name: str, script: str, policy: str) -> dict[str, Any]:
    made = pod(name, container("c", script), restartPolicy=policy)
    return {"metadata": {"labels": {"app": name}}, "spec": made["spec"]}


def _job(name: str, script: str) -> dict[str, Any]:
    template = _template(name, script, "Never")
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": _template(name, _SLEEP, "Always")}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
