# SPDX-License-Identifier: Apache-2.0
"""A control plane and a kubelet with a containerd of their own, in a network namespace without a route out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.bounds import GIVE_UP_SECONDS
from tests.realnode.containerd import Containerd

T = TypeVar("T")
PROGRAM = (sys.executable, "-m", "kubeloop.cli.main")
NODE = "real1"


class RealNode:
    """One node, its control plane, and kubectl."""

    def __init__(
        self,
        runtime: Containerd,
        folder: Path,
        name: str = NODE,
        address: str = "127.0.0.1",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.address = name, address
        self.runtime = runtime
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.root, self.pod_logs = folder / "kubelet", folder / "pod-logs"
        self.cgroup_root = f"/{runtime.namespace}"
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
        self._environment |= dict(environment or {})
        self._kubelet: subprocess.Popen[bytes] | None = None

    @contextmanager
    def plane(self) -> Iterator[None]:
        """Run the control plane."""
        ports = ("--controller-manager-port", "0", "--scheduler-port", "0", "--port", "0")
        files = ("--data-dir", str(self.folder / "data"), "--kubeconfig", str(self.kubeconfig))
        files = (*files, "--bind-address", self.address)
        flags = (*ports, *files, "--nodes", "0", "--cloud-provider", "none", "--kubelet-allow-local-addresses")
        process = self.start_program("up", *flags, log="plane.log")
        try:
            self.eventually(self.kubeconfig.exists)
            self.eventually(lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False))
            yield
        finally:
            process.terminate()
            process.wait()

    def start_kubelet(self, *flags: str) -> None:
        """Start the kubelet."""
        self._kubelet = self.start_program(
            "kubelet",
            *("--kubeconfig", str(self.kubeconfig), "--hostname-override", self.name),
            *("--address", self.address),
            *("--container-runtime-endpoint", self.runtime.endpoint, "--root-dir", str(self.root)),
            *("--pod-logs-dir", str(self.pod_logs), "--cgroup-root", self.cgroup_root),
            *("--port", "0", "--healthz-port", "0"),
            # The disk of the machine may be nearly full: not what these tests are about.
            *("--eviction-hard", "memory.available<1Mi", "--image-gc-high-threshold", "100"),
            *flags,
            log="kubelet.log",
        )

    def stop_kubelet(self, number: int = signal.SIGTERM) -> None:
        """Stop the kubelet; containers run on."""
        if self._kubelet is not None:
            self._kubelet.send_signal(number)
            self._kubelet.wait()
            self._kubelet = None

    def remove_pods(self) -> None:
        """Delete all pods, and what creates pods, and wait until nothing of them is left."""
        self.kubectl("delete", "deployments,jobs", "--all", "--cascade=foreground", "--wait=false")
        self.kubectl("delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--wait=true")
        self.eventually(lambda: not self.leftovers())

    def leftovers(self) -> list[str]:
        """Return what the node still has of pods: sandboxes, folders, mounts, control groups."""
        listed = self.runtime.list_containers()
        folders = [str(one) for base in (self.root / "pods", self.pod_logs) if base.is_dir() for one in base.iterdir()]
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        mine = [one for one in mounts if one.startswith(str(self.root))]
        return [*listed, *folders, *mine, *self.pod_cgroups()]

    def pod_cgroups(self) -> list[str]:
        """Return the control groups of pods; those that are removed meanwhile are left out."""
        roots = Path("/sys/fs/cgroup").glob(f"*{self.cgroup_root}/kubepods")
        found = (os.path.join(path, name) for root in roots for path, names, _ in os.walk(root) for name in names)
        return [one for one in found if os.path.basename(one).startswith("pod")]

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl in the namespace and return its output."""
        command = self.runtime.enter("kubectl", "--kubeconfig", str(self.kubeconfig), *arguments)
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def pod(self, name: str) -> dict[str, Any]:
        """Return a pod."""
        found: dict[str, Any] = json.loads(self.kubectl("get", "pod", name, "-o", "json"))
        return found

    def statuses(self, name: str, group: str = "containerStatuses") -> dict[str, dict[str, Any]]:
        """Return the container statuses of a pod by name."""
        return {one["name"]: one for one in self.pod(name)["status"].get(group, ())}

    def wait_ready(self, name: str) -> dict[str, Any]:
        """Wait until a pod is ready and return it."""

        def look() -> dict[str, Any] | None:
            pod = self.pod(name)
            conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
            return pod if conditions.get("Ready") == "True" else None

        return self.eventually(look, lambda: self.kubectl("describe", "pod", name))

    def wait_phase(self, name: str, phase: str) -> dict[str, Any]:
        """Wait until a pod is in a phase and return it."""
        return self.eventually(
            lambda: pod if (pod := self.pod(name))["status"].get("phase") == phase else None,
            lambda: self.kubectl("describe", "pod", name),
        )

    def is_ready(self) -> bool:
        """Return True if the node is ready."""
        path = "{.items[*].status.conditions[?(@.type=='Ready')].status}"
        return self.kubectl("get", "nodes", "-o", f"jsonpath={path}") == "True"

    def eventually(self, look: Callable[[], T | None], explain: Callable[[], str] = str) -> T:
        """Wait until something is true and return it."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while not (found := look()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{explain()}\n{(self.folder / 'kubelet.log').read_text()[-4000:]}")
            time.sleep(0.1)
        return found

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run kubeloop in the namespace to its end."""
        command = self.runtime.enter(*PROGRAM, *arguments)
        return subprocess.run(command, capture_output=True, text=True, timeout=GIVE_UP_SECONDS, env=self._environment)

    def start_program(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        """Start kubeloop in the namespace."""
        with (self.folder / log).open("ab") as file:
            command = self.runtime.enter(*PROGRAM, *arguments)
            return subprocess.Popen(command, stdout=file, stderr=file, env=self._environment)
