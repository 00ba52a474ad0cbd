# SPDX-License-Identifier: Apache-2.0
"""Tests of real pods: their life, volumes, probes, logs and commands."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

from tests.realnode.images import BUSYBOX
from tests.realnode.node import RealNode

pytestmark = pytest.mark.realnode


def container(name: str, script: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": BUSYBOX, "command": ["sh", "-c", script], **fields}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    grace = {"terminationGracePeriodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {**grace, **spec, "containers": list(containers)},
    }


def serve(name: str = "c", **fields: Any) -> dict[str, Any]:
    """A container that serves its folder /data."""
    return container(name, "mkdir -p /data; echo hi > /data/page; exec httpd -f -p 8080 -h /data", **fields)


def wait_reason(node: RealNode, name: str, reason: str) -> dict[str, Any]:
    """Wait until the container waits for a reason and return its state."""

    def look() -> dict[str, Any] | None:
        waiting: dict[str, Any] = node.statuses(name).get("c", {}).get("state", {}).get("waiting", {})
        return waiting if waiting.get("reason") == reason else None

    return node.eventually(look, lambda: node.kubectl("describe", "pod", name))


def test_pod_becomes_ready_by_its_probes(node: RealNode) -> None:
    probes = {
        "startupProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        "readinessProbe": {"httpGet": {"path": "/page", "port": 8080}, "periodSeconds": 1},
        "livenessProbe": {"exec": {"command": ["cat", "/data/page"]}, "periodSeconds": 1},
    }
    node.apply(pod("web", serve(**probes)))
    found = node.wait_ready("web")
    assert found["status"]["podIP"].startswith("10.85.")
    node.kubectl("exec", "web", "--", "rm", "/data/page")
    killed = node.eventually(lambda: node.statuses("web")["c"]["restartCount"])
    assert killed == 1
    node.wait_ready("web")
    events = node.kubectl("get", "events", "--field-selector", "involvedObject.name=web")
    assert "Liveness probe failed" in events
    assert "Container c failed liveness probe, will be restarted" in events


def test_init_containers_and_sidecars_run_in_order(node: RealNode) -> None:
    shared = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    wait = "until [ -e /data/sidecar ]; do sleep 0.1; done; "
    node.apply(
        pod(
            "order",
            container("c", "cat /data/log; echo main >> /data/log; exit 0", **shared),
            initContainers=[
                container("first", "echo first >> /data/log", **shared),
                container("side", "touch /data/sidecar; exec sleep 1000", restartPolicy="Always", **shared),
                container("second", f"{wait}echo second >> /data/log", **shared),
            ],
            volumes=[{"name": "data", "emptyDir": {}}],
            restartPolicy="Never",
        )
    )
    node.wait_phase("order", "Succeeded")
    assert node.kubectl("logs", "order", "-c", "c") == "first\nsecond\n"
    assert node.statuses("order", "initContainerStatuses")["side"]["state"]["terminated"]


def test_volumes_have_their_contents(node: RealNode) -> None:
    node.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"}, "data": {"a": "1", "b": "2"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sec"}, "stringData": {"key": "hidden"}},
    )
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"configMap": {"name": "cfg", "items": [{"key": "b", "path": "deep/b", "mode": 0o400}]}},
    ]
    script = (
        "cat /cfg/a /sec/key /all/labels /all/deep/b; echo; stat -Lc %a /all/deep/b /sec/key; wc -c < /all/token; id -G"
    )
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("cfg", "sec", "all")]
    node.apply(
        pod(
            "vols",
            container("c", script, volumeMounts=mounts),
            volumes=[
                {"name": "cfg", "configMap": {"name": "cfg"}},
                {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 0o440}},
                {"name": "all", "projected": {"sources": sources}},
            ],
            restartPolicy="Never",
            securityContext={"fsGroup": 1234},
        )
    )
    node.wait_phase("vols", "Succeeded")
    said = node.kubectl("logs", "vols").splitlines()
    assert said[0].startswith('1hiddenapp="vols"2')
    assert said[1:3] == ["440", "440"]
    assert int(said[3]) > 100
    assert "1234" in said[4].split()


def test_environment_hosts_and_working_folder(node: RealNode) -> None:
    field = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    limit = {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}}
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}, field, limit]
    resources = {"limits": {"memory": "64Mi", "cpu": "500m"}}
    script = "; ".join(
        (
            "echo $B $IP $MEM",
            "echo $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT_HTTPS",
            "pwd; hostname; grep alias /etc/hosts",
            "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes 2>/dev/null || cat memory.max",
        )
    )
    aliases = [{"ip": "10.1.2.3", "hostnames": ["alias.example"]}]
    node.apply(
        pod(
            "env",
            container("c", script, env=env, workingDir="/tmp", resources=resources),
            hostname="me",
            hostAliases=aliases,
            restartPolicy="Never",
        )
    )
    found = node.wait_phase("env", "Succeeded")
    said = node.kubectl("logs", "env").splitlines()
    assert said == [
        f"12 {found['status']['podIP']} 67108864",
        "10.0.0.1 443",
        "/tmp",
        "me",
        "10.1.2.3\talias.example",
        "67108864",
    ]


def test_commands_attach_and_forwarded_ports(node: RealNode) -> None:
    node.apply(pod("web", serve(), container("echo", "while read line; do echo got $line; done", stdin=True)))
    node.wait_ready("web")
    assert node.kubectl("exec", "web", "-c", "c", "--", "sh", "-c", "echo out; exit 0") == "out\n"
    assert "exit code 3" in node.kubectl("exec", "web", "-c", "c", "--", "sh", "-c", "exit 3", check=False)
    assert node.kubectl("exec", "-i", "web", "-c", "c", "--", "cat", stdin="to and fro") == "to and fro"
    node.kubectl("attach", "-i", "web", "-c", "echo", stdin="hello\n", check=False)
    assert node.eventually(lambda: node.kubectl("logs", "web", "-c", "echo")) == "got hello\n"
    forward = ("kubectl", "--kubeconfig", str(node.kubeconfig), "port-forward", "pod/web", ":8080")
    with subprocess.Popen(node.runtime.enter(*forward), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().split(":")[1].split()[0]
        page = subprocess.run(
            node.runtime.enter("/bin/busybox", "wget", "-qO-", f"http://127.0.0.1:{port}/page"),
            capture_output=True,
            text=True,
        )
        process.terminate()
    assert page.stdout == "hi\n"


def test_logs_of_this_run_and_the_previous_one(node: RealNode) -> None:
    twice = container(
        "c",
        "echo one; echo two; if [ -e /d/x ]; then exec sleep 1000; fi; touch /d/x; exit 4",
        volumeMounts=[{"name": "d", "mountPath": "/d"}],
    )
    node.apply(pod("logs", twice, volumes=[{"name": "d", "emptyDir": {}}]))
    node.eventually(lambda: node.statuses("logs").get("c", {}).get("restartCount") == 1 or None)
    node.wait_ready("logs")
    assert node.kubectl("logs", "logs", "--tail", "1") == "two\n"
    assert node.kubectl("logs", "logs", "--previous", "--limit-bytes", "6") == "one\ntw"
    assert node.kubectl("logs", "logs", "--timestamps").split()[1] == "one"
    last = node.statuses("logs")["c"]["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"]) == (4, "Error")


def test_termination_messages_and_reasons(node: RealNode) -> None:
    hungry = "x=$(head -c 100000000 /dev/zero | tr '\\0' a); echo ${#x}"
    node.apply(
        pod(
            "end",
            container("said", "echo bye > /dev/termination-log; exit 7"),
            container("fell", "echo last words; exit 1", terminationMessagePolicy="FallbackToLogsOnError"),
            container("oom", hungry, resources={"limits": {"memory": "16Mi"}}),
            {"name": "none", "image": BUSYBOX, "command": ["/no/such/program"]},
            restartPolicy="Never",
        )
    )
    node.wait_phase("end", "Failed")
    states = {name: one["state"] for name, one in node.statuses("end").items()}
    ends = {name: one["terminated"] for name, one in states.items() if "terminated" in one}
    assert (ends["said"]["exitCode"], ends["said"]["message"]) == (7, "bye\n")
    assert ends["fell"]["message"] == "last words\n"
    assert (ends["oom"]["exitCode"], ends["oom"]["reason"]) == (137, "OOMKilled")


def test_missing_image_is_reported_and_disturbs_no_other_pod(node: RealNode) -> None:
    node.apply(pod("away", {"name": "c", "image": "registry.invalid/nothing:1"}), pod("here", serve()))
    node.wait_ready("here")
    waiting = node.eventually(lambda: node.statuses("away").get("c", {}).get("state", {}).get("waiting"))
    assert waiting["reason"] in ("ErrImagePull", "ImagePullBackOff")
    assert "registry.invalid/nothing:1" in waiting["message"]
    never = {"name": "c", "image": "registry.invalid/nothing:2", "imagePullPolicy": "Never"}
    node.apply(pod("never", never))
    wait_reason(node, "never", "ErrImageNeverPull")


def test_hooks_and_grace_period(node: RealNode) -> None:
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started > /data/started"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /host/stopping"]}},
    }
    folder = node.folder / "host"
    mounts = [{"name": "d", "mountPath": "/data"}, {"name": "h", "mountPath": "/host"}]
    volumes = [
        {"name": "d", "emptyDir": {}},
        {"name": "h", "hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}},
    ]
    stubborn = container("c", "trap '' TERM; while true; do sleep 0.1; done", lifecycle=hooks, volumeMounts=mounts)
    node.apply(pod("hooks", stubborn, volumes=volumes, terminationGracePeriodSeconds=3))
    node.wait_ready("hooks")
    assert node.kubectl("exec", "hooks", "--", "cat", "/data/started") == "started\n"
    node.kubectl("delete", "pod", "hooks", "--wait=true")
    assert (folder / "stopping").read_text() == "stopping\n"


def test_killed_kubelet_restarts_nothing(node: RealNode) -> None:
    probes = {"readinessProbe": {"httpGet": {"path": "/page", "port": 8080}, "periodSeconds": 1}}
    node.apply(*(pod(f"web{number}", serve(**probes)) for number in range(3)))
    before = [node.wait_ready(f"web{number}") for number in range(3)]
    for _ in range(3):
        node.stop_kubelet(signal.SIGKILL)
        node.start_kubelet()
        node.eventually(node.is_ready)
    node.apply(pod("after", serve()))
    node.wait_ready("after")  # the kubelet works through its pods again
    for found in before:
        now = node.pod(found["metadata"]["name"])
        assert facts_of(now) == facts_of(found)


def facts_of(pod: dict[str, Any]) -> Any:
    """The facts that a restart of a container, or a change of readiness, would change."""
    status = pod["status"]
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    containers = [(one["containerID"], one["restartCount"]) for one in status["containerStatuses"]]
    return containers, ready["status"], ready["lastTransitionTime"], status["podIP"]


def test_restarted_runtime_is_survived(node: RealNode) -> None:
    node.apply(pod("web", serve()))
    before = facts_of(node.wait_ready("web"))
    node.runtime.kill()
    node.eventually(lambda: not node.is_ready())
    assert "container runtime is down" in node.kubectl("describe", "node")
    node.runtime.start()
    node.eventually(node.is_ready)
    node.apply(pod("after", serve()))
    node.wait_ready("after")
    assert facts_of(node.pod("web")) == before


def test_sub_path_cannot_leave_its_volume(node: RealNode) -> None:
    """A container replaces its folder by a link to the node's files; the next container must not get them."""
    secret = node.folder / "secret-of-the-node"
    secret.mkdir()
    (secret / "key").write_text("stolen")
    mount = {"name": "data", "mountPath": "/data"}
    node.apply(
        pod(
            "attack",
            container("c", "cat /mnt/key", volumeMounts=[{"name": "data", "mountPath": "/mnt", "subPath": "folder"}]),
            initContainers=[container("init", f"ln -s {secret} /data/folder", volumeMounts=[mount])],
            volumes=[{"name": "data", "emptyDir": {}}],
            restartPolicy="Never",
        )
    )
    waiting = wait_reason(node, "attack", "CreateContainerConfigError")
    assert waiting["message"] == 'failed to prepare subPath for volumeMount "data" of container "c"'
    assert str(secret) not in json.dumps(node.pod("attack")["status"])


def test_sub_path_of_a_volume_is_mounted(node: RealNode) -> None:
    mounts = [{"name": "data", "mountPath": "/one", "subPathExpr": "$(POD)"}]
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    whole = [{"name": "data", "mountPath": "/all"}]
    node.apply(
        pod(
            "sub",
            container("c", "cat /all/sub/file", volumeMounts=whole),
            initContainers=[container("init", "echo written > /one/file", volumeMounts=mounts, env=env)],
            volumes=[{"name": "data", "emptyDir": {"medium": "Memory"}}],
            restartPolicy="Never",
        )
    )
    node.wait_phase("sub", "Succeeded")
    assert node.kubectl("logs", "sub") == "written\n"


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ({"runAsUser": 1000, "runAsGroup": 2000}, "1000 2000"),
        ({"readOnlyRootFilesystem": True}, "read-only"),
        ({"capabilities": {"drop": ["ALL"]}}, "CapEff:\t0000000000000000"),
        ({"allowPrivilegeEscalation": False}, "NoNewPrivs:\t1"),
    ],
)
def test_security_context_is_applied(node: RealNode, context: dict[str, Any], shown: str) -> None:
    facts = "grep -E 'CapEff|NoNewPrivs' /proc/self/status"
    script = f"echo $(id -u) $(id -g); touch /x 2>/dev/null || echo read-only; {facts}"
    node.apply(pod("secure", container("c", script, securityContext=context), restartPolicy="Never"))
    node.wait_phase("secure", "Succeeded")
    assert shown in node.kubectl("logs", "secure")


def test_root_is_refused_where_it_must_not_run(node: RealNode) -> None:
    node.apply(pod("root", serve(), securityContext={"runAsNonRoot": True}))
    waiting = wait_reason(node, "root", "CreateContainerConfigError")
    assert "container has runAsNonRoot and image will run as root" in waiting["message"]
