# SPDX-License-Identifier: Apache-2.0
"""Runs and observations from the runtime's statuses, their cache, and the PLEG."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kubeloop.grpc.streams import UNAVAILABLE, RpcError
from kubeloop.kubelet.cri.messages.container import ContainerState, ContainerStatus, Mount
from kubeloop.kubelet.cri.pleg import GenericPLEG
from kubeloop.kubelet.cri.pod_status import run_of
from kubeloop.kubelet.cri.pod_status_cache import PodParts, PodStatusCache
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.unit.kubelet.cri.fake_runtime import FakeRuntime, labels_of

PREFIX = "io.kubernetes.container"


def make_status(
    id: str = "c", state: ContainerState = ContainerState.EXITED, *, policy: str = "File", code: int = 1, **more: object
) -> ContainerStatus:
    annotations = {
        f"{PREFIX}.restartCount": "3",
        f"{PREFIX}.terminationMessagePath": "/dev/termination-log",
        f"{PREFIX}.terminationMessagePolicy": policy,
    }
    return ContainerStatus(
        id=id,
        state=state,
        exit_code=code,
        labels=labels_of("u", "main"),
        annotations=annotations,
        created_at=1,
        finished_at=2_000_000_000 if state == ContainerState.EXITED else 0,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("content", "policy", "code", "reason", "message"),
    [
        (b"why", "File", 1, "Error", "why"),
        (b"why", "FallbackToLogsOnError", 1, "Error", "why"),
        (b"", "File", 1, "Error", ""),
        (b"", "FallbackToLogsOnError", 1, "Error", "log\n"),
        (b"", "FallbackToLogsOnError", 0, "Completed", ""),
        (b"", "FallbackToLogsOnError", 1, "ContainerCannotRun", ""),
        (None, "FallbackToLogsOnError", 1, "Error", "log\n"),
        (b"a" * 10 + b"b" * 4096, "File", 1, "Error", "b" * 4096),
        (b"\xff", "File", 1, "Error", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_termination_messages(
    tmp_path: Path, content: bytes | None, policy: str, code: int, reason: str, message: str
) -> None:
    if content is not None:
        (tmp_path / "message").write_bytes(content)
    (tmp_path / "log").write_text("2026-11-18T01:00:00Z stdout F log\n")
    mounts = (Mount(container_path="/dev/termination-log", host_path=str(tmp_path / "message")),)
    status = make_status(policy=policy, code=code, reason=reason, mounts=mounts, log_path=str(tmp_path / "log"))
    assert run_of(status, "containerd").message == message


def test_the_message_of_the_runtime_comes_first(tmp_path: Path) -> None:
    (tmp_path / "message").write_text("own")
    mounts = (Mount(container_path="/dev/termination-log", host_path=str(tmp_path / "message")),)
    assert run_of(make_status(message="runtime", mounts=mounts), "x").message == "runtime: own"


def test_an_unknown_state_is_an_exit_that_nobody_saw() -> None:
    run = run_of(make_status(state=ContainerState.UNKNOWN, code=0), "containerd")
    assert (run.state, run.exit_code, run.reason) == ("exited", 137, "ContainerStatusUnknown")
    assert (run.id, run.attempt, run.container) == ("containerd://c", 3, "main")


def test_an_observation_is_read_once_until_the_pod_changes() -> None:
    async def scenario() -> None:
        runtime = FakeRuntime()
        runtime.add_sandbox("s", "u")
        runtime.add_container(make_status(state=ContainerState.RUNNING), "s")
        cache = PodStatusCache(runtime.as_service(), "containerd", ("1.2.3.4",))
        one = await cache.get("u")
        assert await cache.get("u") is one
        assert (one.addresses, cache.sandbox_of("u"), runtime.status_calls) == (("10.0.0.1",), "s", 1)
        runtime.add_container(make_status(), "s")
        cache.invalidate("u")
        for _ in range(2):
            found = (await cache.get("u")).last_run("main")
            assert found is not None
            assert found.state == "exited"
            cache.invalidate("u")
        assert runtime.status_calls == 2, "exited containers do not change any more"

    asyncio.run(scenario())


def test_a_pod_that_changes_while_it_is_read_is_read_again() -> None:
    async def scenario() -> None:
        runtime = FakeRuntime()
        runtime.add_sandbox("s", "u")
        runtime.add_container(make_status(state=ContainerState.RUNNING), "s")
        runtime.gate = asyncio.Event()
        cache = PodStatusCache(runtime.as_service(), "containerd", ())
        reading = asyncio.create_task(cache.get("u"))
        await runtime.asked.wait()
        runtime.add_container(make_status(), "s")
        cache.invalidate("u")
        runtime.gate.set()
        old, new = (await reading).last_run("main"), (await cache.get("u")).last_run("main")
        assert old is not None
        assert new is not None
        assert (old.state, new.state) == ("running", "exited")

    asyncio.run(scenario())


def test_the_newest_sandbox_counts() -> None:
    async def scenario() -> None:
        runtime = FakeRuntime()
        runtime.add_sandbox("old", "u", 1)
        runtime.add_sandbox("new", "u", 2)
        runtime.add_container(make_status(), "old")
        found = await PodStatusCache(runtime.as_service(), "containerd", ()).get("u")
        run = found.last_run("main")
        assert run is not None
        assert not run.is_in_current_sandbox

    asyncio.run(scenario())


def test_the_pleg_reports_changes_and_survives_a_runtime_that_is_down() -> None:
    async def scenario() -> None:
        runtime, changes = FakeRuntime(), list[tuple[str, ObjectKey]]()

        def take(uid: str, key: ObjectKey, parts: PodParts) -> bool:
            changes.append((uid, key))
            return True

        pleg = GenericPLEG(runtime.as_service(), VirtualClock(loop), take)
        assert pleg.health_error() == "PLEG is not healthy: pleg has yet to be successful"
        runtime.add_sandbox("s", "u")
        task = asyncio.create_task(pleg.run())
        await loop.advance(2.5)
        change = ("u", ObjectKey("ns", "pod-u"))
        assert changes == [change]
        assert pleg.health_error() == ""
        runtime.add_container(make_status(state=ContainerState.RUNNING), "s")
        await loop.advance(1)
        runtime.add_container(make_status(), "s")
        await loop.advance(1)
        assert changes == [change] * 3
        runtime.failure = RpcError(UNAVAILABLE, "down")
        await loop.advance(181)
        assert changes == [change] * 3
        assert pleg.failure
        assert pleg.health_error().startswith("PLEG is not healthy: pleg was last seen active 18")
        runtime.failure = None
        runtime.sandboxes.clear()
        runtime.statuses.clear()
        await loop.advance(1)
        assert changes == [change] * 4, "a pod that is gone has changed too"
        assert (pleg.failure, pleg.health_error(), dict(pleg.pods)) == ("", "", {})
        task.cancel()

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)
