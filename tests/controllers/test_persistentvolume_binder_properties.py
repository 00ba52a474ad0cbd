# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong: no volume has two claims, bindings agree in the end, policies are kept, what is used stays."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from kubeloop.api.pods.volumes import capacity_of_volume, has_access_modes, requested_size
from kubeloop.controllers import persistentvolume_protection, persistentvolumeclaim_protection
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.persistentvolume_binder import wire
from kubeloop.runtime.controller import Controller
from kubeloop.testing import Cluster
from tests.controllers.faults import LOSSES, NETWORK, ControllerProcess, Step, steps
from tests.controllers.storage import CLASS, NS, claim, storage_class, user_of, volume

MADE, STATIC = "made", CLASS
SIZES = ("1Gi", "2Gi", "5Gi")
MODES = (("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteMany",))
POLICIES = ("Retain", "Delete")
MOST_WRITES = 1500  # of all clients, including events; binders that undo each other's writes make thousands
ACTIONS = (
    "claim",
    "claim a name",
    "claim what is made",
    "offer",
    "reserve",
    "delete claim",
    "delete volume",
    "use",
    "end",
    "late writes",
    "wait",
    "settle",
)


def wire_second(context: ControllerContext) -> Controller[Any]:
    """Second binder that is also leading."""
    loop = wire(context)
    loop.name = "another binder"
    return loop


def _goes_unbound(made: PersistentVolume | None, one: PersistentVolumeClaim) -> bool:
    """Return True if the volume provisioned for a claim was deleted before the claim referenced it.

    As upstream, whatever the volume's phase: FindMatchingVolume passes over a volume that is being deleted, and
    provisionClaimOperation makes no other one while it exists. The claim stays pending until its finalizers are gone.
    """
    return made is not None and made.metadata.deletion_timestamp is not None and not one.spec.volume_name


class PersistentVolumeBinderHarness:
    """Claims, volumes and the controllers, each in a separate process."""

    def __init__(self, cluster: Cluster, rivals: bool) -> None:
        self.cluster = cluster
        self._made = 0
        self._deleted: set[str] = set()  # names of volumes deleted by a user
        self._kept: dict[str, str] = {}  # volumes with the policy Retain, by uid
        self._prebound: set[str] = set()  # UIDs of claims that were created with a volume name
        self._reserved: set[str] = set()  # UIDs of volumes that were created with a claim reference
        cluster.add(storage_class(MADE, "kubeloop.io/host-path", reclaimPolicy="Delete"))
        self._processes = [
            ControllerProcess(cluster, one)
            for one in (wire, persistentvolumeclaim_protection.wire, persistentvolume_protection.wire)
        ]
        self._first_revision = self._revision()
        if rivals:
            self._processes.append(ControllerProcess(cluster, wire_second))

    def take(self, step: Step) -> None:
        name, number = step
        if name in (*NETWORK, *LOSSES):
            self._processes[number % len(self._processes)].disturb(name, number)
            return
        actions: dict[str, Any] = {
            "claim": lambda: self._claim(number, STATIC),
            "claim a name": lambda: self._claim(number, STATIC, volumeName=f"v{number}"),
            "claim what is made": lambda: self._claim(number, MADE),
            "offer": lambda: self._offer(number),
            "reserve": lambda: self._offer(number, claimRef={"namespace": NS, "name": f"c{number % 4}"}),
            "delete claim": lambda: self._delete(PersistentVolumeClaim, number),
            "delete volume": lambda: self._delete(PersistentVolume, number),
            "use": lambda: self._use(number),
            "end": lambda: self._delete(Pod, number),
            "late writes": lambda: self.cluster.faults.delay(number * 2, "patch", times=2),
            "wait": lambda: self.cluster.advance(number * 3),
            "settle": self.cluster.settle,
        }
        actions[name]()
        self._let_run(number)

    def _let_run(self, turns: int) -> None:
        """Run some iterations of the event loop, so that the next step finds unfinished work."""

        async def run_on() -> None:
            for _ in range(turns * 3):
                await asyncio.sleep(0)

        self.cluster.run(run_on())

    def _claim(self, number: int, of_class: str, **spec: Any) -> None:
        self._made += 1
        size, modes = SIZES[number % 3], MODES[number % 2]
        name = f"c{number % 4}" if not self._exists(PersistentVolumeClaim, f"c{number % 4}") else f"d{self._made}"
        made = self.cluster.add(claim(name, size, modes, storageClassName=of_class, **spec))
        if "volumeName" in spec:
            self._prebound.add(made.metadata.uid)

    def _offer(self, number: int, **spec: Any) -> None:
        name, policy = f"v{number}", POLICIES[number % 2]
        if self._exists(PersistentVolume, name):
            return
        modes = MODES[number % 3] if number % 3 != 2 else (*MODES[0], *MODES[2])
        fields = {"persistentVolumeReclaimPolicy": policy, "hostPath": {"path": f"/tmp/{name}"}, **spec}
        made = self.cluster.add(volume(name, SIZES[number // 3 % 3], modes, **fields))
        if "claimRef" in spec:
            self._reserved.add(made.metadata.uid)
        if policy == "Retain":
            self._kept[made.metadata.uid] = name

    def _delete(self, kind: Any, number: int) -> None:
        namespace = "" if kind is PersistentVolume else NS
        found = self.cluster.client.list(kind, namespace).items
        if not found:
            return
        one = found[number % len(found)]
        self._kept.pop(one.metadata.uid, None)
        if kind is PersistentVolume:
            self._deleted.add(one.metadata.name)
        if kind is Pod:
            self.cluster.client.delete(kind, one.metadata.name, namespace, grace_seconds=0)
        else:
            self.cluster.client.delete(kind, one.metadata.name, namespace)

    def _use(self, number: int) -> None:
        """Run a pod on a node; nodes start none whose claim is being deleted or not bound."""
        usable = [
            one.metadata.name
            for one in self._claims()
            if one.metadata.deletion_timestamp is None and one.status.phase == "Bound"
        ]
        if usable:
            self._made += 1
            self.cluster.add(user_of(f"p{self._made}", usable[number % len(usable)], node="n"))

    def _revision(self) -> int:
        return int(self.cluster.client.list(PersistentVolume).resource_version)

    def _exists(self, kind: Any, name: str) -> bool:
        try:
            self.cluster.client.get(kind, name, "" if kind is PersistentVolume else NS)
        except NotFound:
            return False
        return True

    def _claims(self) -> list[PersistentVolumeClaim]:
        return list(self.cluster.client.list(PersistentVolumeClaim, NS).items)

    def _volumes(self) -> dict[str, PersistentVolume]:
        return {one.metadata.name: one for one in self.cluster.client.list(PersistentVolume).items}

    def check(self) -> None:
        """Check invariants."""
        claims, volumes = self._claims(), self._volumes()
        bound = [one for one in claims if one.status.phase == "Bound"]
        assert len({one.spec.volume_name for one in bound}) == len(bound)
        for one in bound:
            has = volumes.get(one.spec.volume_name)
            if has is None or has.spec.claim_ref is None or has.spec.claim_ref.uid != one.metadata.uid:
                continue
            if not self._is_bound_by_user(has, one):
                assert capacity_of_volume(has) >= requested_size(one)
                assert has_access_modes(has, one)
        names = {one.metadata.name for one in claims}
        for pod in self.cluster.client.list(Pod, NS).items:
            source = pod.spec.volumes[0].persistent_volume_claim if pod.spec.volumes else None
            assert source is None or source.claim_name in names
        uids = {one.metadata.uid for one in volumes.values()}
        assert set(self._kept) <= uids

    def _is_bound_by_user(self, has: PersistentVolume, one: PersistentVolumeClaim) -> bool:
        """Return True if claim and volume are pre-bound to each other by the user.

        Upstream's syncUnboundClaim then only finishes the binding, whatever size and access modes are asked for: it
        calls checkVolumeSatisfyClaim only for volumes without a claim reference.
        """
        return one.metadata.uid in self._prebound and has.metadata.uid in self._reserved

    def check_end(self) -> None:
        self.cluster.faults.clear()
        self.cluster.advance(minutes=5)
        self.check()
        assert self._revision() - self._first_revision < MOST_WRITES
        claims, volumes = self._claims(), self._volumes()
        by_uid = {one.metadata.uid: one for one in claims}
        for one in claims:
            self._check_claim(one, volumes)
        for has in volumes.values():
            self._check_volume(has, by_uid)

    def _check_claim(self, one: PersistentVolumeClaim, volumes: dict[str, PersistentVolume]) -> None:
        has = volumes.get(one.spec.volume_name)
        if one.status.phase == "Bound":
            assert has is not None
            assert has.status.phase == "Bound"
            assert has.spec.claim_ref is not None
            assert has.spec.claim_ref.uid == one.metadata.uid
        elif one.status.phase == "Pending":
            assert one.spec.storage_class_name != MADE or _goes_unbound(volumes.get(f"pvc-{one.metadata.uid}"), one)
        else:
            assert one.status.phase == "Lost"
            assert one.spec.volume_name in self._deleted
            assert has is None or has.spec.claim_ref is None or has.spec.claim_ref.uid != one.metadata.uid

    def _check_volume(self, has: PersistentVolume, claims: dict[str, PersistentVolumeClaim]) -> None:
        reference = has.spec.claim_ref
        if reference is None or not reference.uid:
            assert has.status.phase == "Available"
        elif reference.uid in claims and _goes_unbound(has, claims[reference.uid]):
            assert claims[reference.uid].status.phase == "Pending"
        elif reference.uid in claims:
            assert has.status.phase == "Bound"
            assert claims[reference.uid].spec.volume_name == has.metadata.name
        else:
            assert has.status.phase == "Released"
            assert has.spec.persistent_volume_reclaim_policy == "Retain"


# Pre-bound from both sides: bound although the volume is too small, or lacks an access mode.
@example(taken=[("claim a name", 1), ("reserve", 1)], rivals=False, seed=0)
# Two binders, one with an old cache of claims: they provisioned and deleted a volume thousands of times.
@example(
    taken=[
        ("drop watches", 7),
        ("reserve", 5),
        ("late watch", 2),
        ("refuse create", 2),
        ("wait", 6),
        ("claim what is made", 4),
        ("drop watches", 2),
        ("delete claim", 4),
    ],
    rivals=True,
    seed=41345,
)
# The volume is marked as bound and deleted before the claim names it.
@example(
    taken=[
        ("lose patch", 3),
        ("claim what is made", 0),
        ("lose create", 2),
        ("drop watches", 5),
        ("delete volume", 4),
    ],
    rivals=True,
    seed=43190,
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(steps(*ACTIONS, *NETWORK, *LOSSES, most=30), st.booleans(), st.integers(0, 2**16))
def test_binding_invariants_hold_under_faults(taken: list[Step], rivals: bool, seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        harness = PersistentVolumeBinderHarness(cluster, rivals)
        for step in taken:
            harness.take(step)
            harness.check()
        harness.check_end()
