# SPDX-License-Identifier: Apache-2.0
"""Rotation of logs, links to them, and removal of dead containers and sandboxes, with a fake runtime."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from kubeloop.grpc.streams import NOT_FOUND, RpcError
from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from kubeloop.kubelet.cri.gc.container_gc import ContainerGC
from kubeloop.kubelet.cri.gc.log_links import ContainerLogLinks
from kubeloop.kubelet.cri.gc.log_manager import ContainerLogManager, LogRotationPolicy
from kubeloop.kubelet.cri.messages.container import (
    Container,
    ContainerState,
    ContainerStatus,
    ContainerStatusResponse,
)
from kubeloop.kubelet.cri.messages.sandbox import PodSandbox, PodSandboxState

_START = datetime(2030, 1, 1, tzinfo=UTC)


def labels_of(uid: str, name: str = "app") -> dict[str, str]:
    return {POD_UID: uid, POD_NAME: "web", POD_NAMESPACE: "shop", CONTAINER_NAME: name}


class FakeClock:
    """Clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return _START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def random(self) -> Random:
        return Random(0)


class FakeRuntime:
    """Runtime whose containers write what the test writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.containers: dict[str, Container] = {}
        self.sandboxes: dict[str, PodSandbox] = {}
        self.stopped: list[str] = []
        self.reopen_error: RpcError | None = None

    def add(
        self, id: str, uid: str, name: str = "app", *, at: int = 0, state: ContainerState = ContainerState.EXITED
    ) -> None:
        found = Container(id=id, pod_sandbox_id=f"s-{uid}", state=state, created_at=at, labels=labels_of(uid, name))
        self.containers[id] = found
        self.log(id).parent.mkdir(parents=True, exist_ok=True)
        self.log(id).write_text("")

    def add_sandbox(self, id: str, uid: str, at: int, state: PodSandboxState = PodSandboxState.NOTREADY) -> None:
        self.sandboxes[id] = PodSandbox(id=id, state=state, created_at=at, labels=labels_of(uid))

    def log(self, id: str) -> Path:
        uid = self.containers[id].labels[POD_UID]
        return self.folder / f"shop_web_{uid}" / id / "0.log"

    async def list_containers(self, labels: Mapping[str, str], sandbox: str = "") -> tuple[Container, ...]:
        return tuple(self.containers.values())

    async def list_pod_sandboxes(self, labels: Mapping[str, str]) -> tuple[PodSandbox, ...]:
        return tuple(self.sandboxes.values())

    async def container_status(self, id: str, *, verbose: bool = False) -> ContainerStatusResponse:
        if id not in self.containers:
            raise RpcError(NOT_FOUND, f"no container {id}")
        status = ContainerStatus(id=id, state=self.containers[id].state, log_path=str(self.log(id)))
        return ContainerStatusResponse(status=status)

    async def reopen_container_log(self, id: str) -> None:
        if self.reopen_error is not None:
            raise self.reopen_error
        self.log(id).write_text("")

    async def stop_container(self, id: str, grace: int) -> None:
        self.stopped.append(id)

    async def remove_container(self, id: str) -> None:
        del self.containers[id]

    async def stop_pod_sandbox(self, id: str) -> None:
        self.stopped.append(id)

    async def remove_pod_sandbox(self, id: str) -> None:
        del self.sandboxes[id]


@pytest.fixture
def runtime(tmp_path: Path) -> FakeRuntime:
    return FakeRuntime(tmp_path / "pods")


# Rotation.


def rotate(runtime: FakeRuntime, clock: FakeClock, files: int = 5) -> None:
    asyncio.run(ContainerLogManager(runtime, clock, LogRotationPolicy(100, files)).rotate_logs())


def test_a_large_log_is_renamed_and_opened_again(runtime: FakeRuntime) -> None:
    runtime.add("c1", "u1", state=ContainerState.RUNNING)
    runtime.add("c2", "u1", "small", state=ContainerState.RUNNING)
    runtime.add("c3", "u1", "dead")
    runtime.log("c1").write_text("x" * 100)
    runtime.log("c2").write_text("x" * 99)
    runtime.log("c3").write_text("x" * 100)
    rotate(runtime, FakeClock())
    folder = runtime.log("c1").parent
    assert runtime.log("c1").read_text() == ""
    assert (folder / "0.log.20300101-000000").read_text() == "x" * 100
    assert [len(list(runtime.log(id).parent.iterdir())) for id in ("c2", "c3")] == [1, 1]


@pytest.mark.parametrize("files", [2, 3, 5])
def test_rotated_logs_are_compressed_and_the_oldest_removed(runtime: FakeRuntime, files: int) -> None:
    runtime.add("c1", "u1", state=ContainerState.RUNNING)
    clock = FakeClock()
    for number in range(8):
        clock.seconds = number
        runtime.log("c1").write_text(str(number) * 100)
        rotate(runtime, clock, files)
    found = sorted(runtime.log("c1").parent.iterdir())
    assert len(found) == files
    assert found[-1].read_text() == "7" * 100  # not compressed, readers may be at its end
    texts = [gzip.decompress(one.read_bytes()).decode() for one in found[1:-1]]
    assert texts == [str(number) * 100 for number in range(9 - files, 7)]


def test_leftovers_of_an_interrupted_rotation_are_removed(runtime: FakeRuntime) -> None:
    runtime.add("c1", "u1", state=ContainerState.RUNNING)
    folder = runtime.log("c1").parent
    for name in ("0.log.1", "0.log.1.gz", "0.log.2.tmp"):
        (folder / name).write_bytes(b"")
    runtime.log("c1").write_text("x" * 100)
    rotate(runtime, FakeClock())
    assert sorted(one.name for one in folder.iterdir()) == ["0.log", "0.log.1.gz", "0.log.20300101-000000"]


def test_log_keeps_its_name_if_the_runtime_does_not_open_it_again(runtime: FakeRuntime) -> None:
    runtime.add("c1", "u1", state=ContainerState.RUNNING)
    runtime.log("c1").write_text("x" * 100)
    runtime.reopen_error = RpcError(14, "down")
    rotate(runtime, FakeClock())
    assert [one.name for one in runtime.log("c1").parent.iterdir()] == ["0.log"]


def test_missing_log_of_a_running_container_is_opened_again(runtime: FakeRuntime) -> None:
    runtime.add("c1", "u1", state=ContainerState.RUNNING)
    runtime.log("c1").unlink()
    rotate(runtime, FakeClock())
    assert runtime.log("c1").exists()


# Garbage.


def collect(runtime: FakeRuntime, known: str, links: ContainerLogLinks) -> set[str]:
    kept: set[str] = set()
    gc = ContainerGC(runtime, runtime.folder, links, kept.update)
    asyncio.run(gc.collect(lambda uid: uid in known.split()))
    return kept


def test_one_dead_container_of_each_name_is_kept(runtime: FakeRuntime, tmp_path: Path) -> None:
    runtime.add("old", "u1", at=1)
    runtime.add("older", "u1", at=0)
    runtime.add("newest", "u1", at=2)
    runtime.add("other", "u1", "sidecar", at=0)
    runtime.add("running", "u1", at=3, state=ContainerState.RUNNING)
    log = runtime.log("old")
    (log.parent / "0.log.20300101-000000").write_text("rotated")
    kept = collect(runtime, "u1", ContainerLogLinks(tmp_path / "links"))
    assert set(runtime.containers) == kept == {"newest", "other", "running"}
    assert list(log.parent.iterdir()) == []


def test_container_in_an_unknown_state_is_stopped_before_it_is_removed(runtime: FakeRuntime, tmp_path: Path) -> None:
    runtime.add("unknown", "u1", at=1, state=ContainerState.UNKNOWN)
    runtime.add("newest", "u1", at=2)
    collect(runtime, "u1", ContainerLogLinks(tmp_path / "links"))
    assert (set(runtime.containers), runtime.stopped) == ({"newest"}, ["unknown"])


def test_dead_sandboxes_without_containers_are_removed(runtime: FakeRuntime, tmp_path: Path) -> None:
    runtime.add_sandbox("a1", "u1", 1)
    runtime.add_sandbox("a2", "u1", 2)  # the newest of a pod that exists
    runtime.add_sandbox("b1", "u2", 1)
    runtime.add_sandbox("b2", "u2", 2, PodSandboxState.READY)
    runtime.add_sandbox("s-u3", "u3", 1)  # has a container
    runtime.add_sandbox("c2", "u3", 2)
    runtime.add("c", "u3")
    runtime.add_sandbox("d1", "gone", 1)
    collect(runtime, "u1 u2 u3", ContainerLogLinks(tmp_path / "links"))
    assert set(runtime.sandboxes) == {"a2", "b2", "s-u3", "c2"}


def test_logs_of_removed_pods_are_removed(runtime: FakeRuntime, tmp_path: Path) -> None:
    for name in ("shop_web_u1", "shop_web_gone", "other"):
        (runtime.folder / name).mkdir(parents=True)
    collect(runtime, "u1", ContainerLogLinks(tmp_path / "links"))
    assert {one.name for one in runtime.folder.iterdir()} == {"shop_web_u1", "other"}


def test_links_lead_to_logs_and_dead_ones_are_removed(runtime: FakeRuntime, tmp_path: Path) -> None:
    links = ContainerLogLinks(tmp_path / "links")
    for id in ("running", "dead", "present"):
        state = ContainerState.EXITED if id == "dead" else ContainerState.RUNNING
        runtime.add(id, "u1", id, state=state)
        links.create(id, runtime.containers[id].labels, runtime.log(id))
    link = tmp_path / "links" / "web_shop_present-present.log"
    assert link.resolve() == runtime.log("present").resolve()
    for id in ("running", "dead"):
        runtime.log(id).unlink()
    collect(runtime, "u1", links)
    left = {one.name for one in (tmp_path / "links").iterdir()}
    assert left == {"web_shop_running-running.log", "web_shop_present-present.log"}  # a rotation may be under way


def test_link_names_fit_into_a_folder(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text("")
    ContainerLogLinks(tmp_path / "links").create("c" * 64, labels_of("u1", "n" * 250), log)
    (link,) = (tmp_path / "links").iterdir()
    assert len(link.name) == 255
    assert link.name.endswith(".log")
