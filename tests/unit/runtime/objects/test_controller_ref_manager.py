# SPDX-License-Identifier: Apache-2.0
"""Adoption and release: the verdict as a pure function, the patches on a real server."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kubeloop.api.errors import Conflict, Invalid, conflict
from kubeloop.api.generated import apps_v1, core_v1, meta_v1
from kubeloop.api.scalars.wire import Time
from kubeloop.api.selectors import parse_label_selector
from kubeloop.runtime.objects.controller_ref_manager import (
    AdoptionError,
    ClaimAction,
    ClaimOwner,
    claim,
    claim_action_of,
    live_check,
)
from kubeloop.runtime.objects.owner_references import adoption_patch, controller_reference, release_patch
from tests.unit.runtime.in_process_server import Server, play, resource

PODS, SETS = resource("pods"), resource("replicasets", "apps")
DELETED = Time("2026-01-01T00:00:00Z")
MINE, THEIRS, NOBODYS = "mine", "theirs", ""


def replica_set(uid: str = MINE, deleted: bool = False, namespace: str = "d") -> apps_v1.ReplicaSet:
    meta = meta_v1.ObjectMeta(name="web", namespace=namespace, uid=uid, deletion_timestamp=DELETED if deleted else None)
    return apps_v1.ReplicaSet(metadata=meta)


def pod(owner: str = NOBODYS, app: str = "web", deleted: bool = False, namespace: str = "d") -> core_v1.Pod:
    owners = (meta_v1.OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid=owner, controller=True),)
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(
            name="p",
            namespace=namespace,
            uid="pod",
            labels={"app": app},
            owner_references=owners if owner else (),
            deletion_timestamp=DELETED if deleted else None,
        )
    )


@pytest.mark.parametrize(
    ("owner", "obj", "verdict"),
    [
        (replica_set(), pod(MINE), ClaimAction.OWNED),
        (replica_set(deleted=True), pod(MINE), ClaimAction.OWNED),
        (replica_set(), pod(MINE, deleted=True), ClaimAction.OWNED),
        (replica_set(), pod(MINE, app="other"), ClaimAction.RELEASE),
        (replica_set(), pod(MINE, app="other", deleted=True), ClaimAction.RELEASE),
        (replica_set(deleted=True), pod(MINE, app="other"), ClaimAction.IGNORE),
        (replica_set(), pod(THEIRS), ClaimAction.IGNORE),
        (replica_set(), pod(THEIRS, app="other"), ClaimAction.IGNORE),
        (replica_set(), pod(), ClaimAction.ADOPT),
        (replica_set(), pod(app="other"), ClaimAction.IGNORE),
        (replica_set(), pod(deleted=True), ClaimAction.IGNORE),
        (replica_set(deleted=True), pod(), ClaimAction.IGNORE),
        (replica_set(), pod(namespace="elsewhere"), ClaimAction.IGNORE),
        (replica_set(namespace=""), pod(namespace="anywhere"), ClaimAction.ADOPT),
    ],
)
def test_claim_decision(owner: apps_v1.ReplicaSet, obj: core_v1.Pod, verdict: ClaimAction) -> None:
    claimant = ClaimOwner(owner, SETS, parse_label_selector("app=web"))
    assert claim_action_of(claimant, obj, lambda one: one.metadata.labels["app"] == "web") is verdict


def test_patches_match_upstream() -> None:
    reference = controller_reference(replica_set(), SETS)
    assert adoption_patch(reference, "pod", ["f"]) == {
        "metadata": {
            "uid": "pod",
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web",
                    "uid": MINE,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": ["f"],
        }
    }
    assert release_patch(MINE, "pod", ["f"]) == {
        "metadata": {
            "uid": "pod",
            "ownerReferences": [{"$patch": "delete", "uid": MINE}],
            "$deleteFromPrimitiveList/finalizers": ["f"],
        }
    }


async def fine() -> None:
    pass


def new_pod(name: str, app: str = "web") -> core_v1.Pod:
    spec = core_v1.PodSpec(containers=(core_v1.Container(name="c", image="i"),))
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace="d", labels={"app": app}), spec=spec)


def test_server_adopts_orphans_and_releases_with_finalizers() -> None:
    async def scenario(server: Server) -> None:
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"), ("example.com/tracking",))
        orphan, other = [await server.create(PODS, one) for one in (new_pod("a"), new_pod("b", app="other"))]
        assert await claim(server.client, claimant, PODS, [orphan, other], fine) == [orphan]
        adopted = await server.client.get(PODS, "a", "d")
        assert adopted.metadata.owner_references == (controller_reference(replica_set(), SETS),)
        assert adopted.metadata.finalizers == ("example.com/tracking",)

        strayed = await server.patch(PODS, "d", "a", {"metadata": {"labels": {"app": "stray"}}})
        assert await claim(server.client, claimant, PODS, [strayed], fine) == []
        released = await server.client.get(PODS, "a", "d")
        assert (released.metadata.owner_references, released.metadata.finalizers) == ((), ())

    play(scenario)


def test_recreated_object_is_neither_adopted_nor_released() -> None:
    async def scenario(server: Server) -> None:
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        created = await server.create(PODS, new_pod("p"))
        with pytest.raises((Conflict, Invalid)):
            await claim(server.client, claimant, PODS, [pod()], fine)
        assert await claim(server.client, claimant, PODS, [pod(MINE, app="other")], fine) == []
        assert await server.client.get(PODS, "p", "d") == created

    play(scenario)


def test_missing_object_is_not_claimed_without_error() -> None:
    async def scenario(server: Server) -> None:
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        assert await claim(server.client, claimant, PODS, [pod(), pod(MINE, app="other")], fine) == []

    play(scenario)


class PatchRecorder:
    """Client that records patches, fails them on request, and otherwise returns a pod."""

    def __init__(self, error: Exception | None = None, found: core_v1.Pod | None = None) -> None:
        self.error = error
        self.found = found or pod(MINE)
        self.names: list[str] = []

    async def patch(self, what: Any, name: str, patch: Any, namespace: str = "", *, type: str = "") -> core_v1.Pod:
        self.names.append(name)
        if self.error is not None:
            raise self.error
        return self.found


def test_owner_is_read_once_and_only_before_an_adoption() -> None:
    asked = []

    async def check() -> None:
        asked.append(1)

    async def scenario(server: Server) -> None:
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        await claim(PatchRecorder(), claimant, PODS, [pod(MINE), pod(THEIRS)], check)
        assert asked == []
        assert len(await claim(PatchRecorder(), claimant, PODS, [pod(), pod(), pod(MINE)], check)) == 3
        assert asked == [1]

    play(scenario)


@pytest.mark.parametrize(
    ("grace_seconds", "finalizers", "is_claimed"),
    [(30, (), True), (0, ("example.com/tracking",), True), (0, (), False), (None, (), False)],
)
def test_object_that_an_adoption_has_removed_is_not_claimed(
    grace_seconds: int | None, finalizers: tuple[str, ...], is_claimed: bool
) -> None:
    ending = {"deletion_timestamp": DELETED, "deletion_grace_period_seconds": grace_seconds, "finalizers": finalizers}
    found = msgspec.structs.replace(pod(MINE), metadata=msgspec.structs.replace(pod(MINE).metadata, **ending))

    async def scenario(server: Server) -> None:
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        claimed = await claim(PatchRecorder(found=found), claimant, PODS, [pod()], fine)
        assert bool(claimed) is is_claimed

    play(scenario)


def test_missing_owner_adopts_nothing_but_keeps_its_objects() -> None:
    async def gone() -> None:
        raise AdoptionError("gone")

    async def scenario(server: Server) -> None:
        client = PatchRecorder()
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        with pytest.raises(AdoptionError, match=r"can't adopt Pod d/p \(pod\): gone"):
            await claim(client, claimant, PODS, [pod(MINE), pod()], gone)
        assert client.names == []

    play(scenario)


def test_one_failure_does_not_block_others() -> None:
    async def scenario(server: Server) -> None:
        client = PatchRecorder(conflict("", "pods", "p"))
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        with pytest.raises(ExceptionGroup, match="failed to claim 2 pods") as raised:
            await claim(client, claimant, PODS, [pod(), pod(MINE, app="other")], fine)
        assert [type(error) for error in raised.value.exceptions] == [Conflict, Conflict]
        assert client.names == ["p", "p"]

    play(scenario)


def test_filtered_object_counts_as_not_matching() -> None:
    async def scenario(server: Server) -> None:
        client = PatchRecorder()
        claimant = ClaimOwner(replica_set(), SETS, parse_label_selector("app=web"))
        assert await claim(client, claimant, PODS, [pod(MINE), pod()], fine, lambda _pod: False) == []
        assert client.names == ["p"]  # the one that was owned is released

    play(scenario)


def test_live_check_detects_recreated_terminating_and_missing_owners() -> None:
    async def scenario(server: Server) -> None:
        async def read(found: Any) -> Any:
            if isinstance(found, Exception):
                raise found
            return found

        async def check(found: Any) -> None:
            await live_check(replica_set(), "ReplicaSet", lambda: read(found))()

        await check(replica_set())
        with pytest.raises(AdoptionError, match="original ReplicaSet d/web is gone: got uid new, wanted mine"):
            await check(replica_set(uid="new"))
        with pytest.raises(AdoptionError, match="d/web has just been deleted at 2026-01-01T00:00:00Z"):
            await check(replica_set(deleted=True))
        with pytest.raises(AdoptionError, match="can't recheck DeletionTimestamp: no"):
            await check(ValueError("no"))

    play(scenario)
