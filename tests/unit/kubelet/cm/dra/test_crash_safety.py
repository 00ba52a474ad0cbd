# SPDX-License-Identifier: Apache-2.0
"""Kubelets that are killed between any two steps: what drivers have prepared is known, and never stays forever."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.kubelet.cm.dra.claim_info import decode_claims
from kubeloop.kubelet.cm.dra.claim_info_cache import CHECKPOINT
from kubeloop.kubelet.cm.dra.driver_calls import DynamicResourceError
from kubeloop.kubelet.cm.resource_managers import PrepareError
from tests.unit.kubelet.cm.dra.dra_world import KilledError, World, claim, pod

PODS = ("p1", "p2", "p3")
CLAIMS = {"x": ("a",), "y": ("a", "b"), "z": ("b",)}
STEPS = st.one_of(st.none(), st.integers(0, 9))
OPERATIONS = st.tuples(st.sampled_from(["prepare", "unprepare", "delete", "reconcile", "break"]), st.integers(0, 2))


class Model:
    """Pods with claims, and what a user may rely on."""

    def __init__(self, uses: list[set[str]]) -> None:
        self.world = World("a", "b")
        self.uses = dict(zip(PODS, uses, strict=True))
        self.running: set[str] = set()  # pods whose resources were prepared and not released since
        self.world.pods = {name: pod(name, *sorted(self.uses[name])) for name in PODS}
        for name, drivers in CLAIMS.items():
            users = [one for one in PODS if name in self.uses[one]]
            self.world.client.put(claim(name, *drivers, pods=users))

    def run(self, operation: str, number: int, steps: int | None) -> None:
        """Perform an operation; the kubelet is killed after some steps, and starts again."""
        world, name = self.world, PODS[number]
        world.steps_left = steps
        try:
            with suppress(PrepareError, DynamicResourceError):
                asyncio.run(self._perform(operation, name))
        except KilledError:
            world.start()
        world.steps_left = None

    async def _perform(self, operation: str, name: str) -> None:
        world = self.world
        if operation == "break":
            world.broken ^= {"b"}
        elif operation == "reconcile":
            await world.manager.reconcile()
        elif world.pods is not None and name in world.pods:
            if operation == "prepare":
                await world.manager.prepare(world.pods[name])
                self.running.add(name)
                return
            self.running.discard(name)  # its containers have ended
            if operation == "unprepare":
                await world.manager.unprepare(world.pods[name])
            else:
                del world.pods[name]  # by force: no kubelet saw it

    def check(self) -> None:
        """Check that the next kubelet would know all prepared claims, and that no running pod has lost one."""
        known = {one.claim_uid for one in decode_claims(self.world.store.files[CHECKPOINT])}
        assert {uid for _, uid in self.world.prepared} <= known
        for name in self.running:
            for used in self.uses[name]:
                assert {(driver, f"uid-{used}") for driver in CLAIMS[used]} <= self.world.prepared

    def end(self) -> None:
        """Delete all pods, with drivers that work: nothing is left."""
        self.world.pods, self.world.broken = {}, set()
        asyncio.run(self.world.manager.reconcile())
        assert self.world.prepared == set()
        assert decode_claims(self.world.store.files[CHECKPOINT]) == ()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from(sorted(CLAIMS)), min_size=1), min_size=3, max_size=3),
    st.lists(st.tuples(OPERATIONS, STEPS), max_size=25),
)
def test_killed_kubelets_lose_no_prepared_claim(
    uses: list[set[str]], operations: list[tuple[tuple[str, int], int | None]]
) -> None:
    model = Model(uses)
    for (operation, number), steps in operations:
        model.run(operation, number, steps)
        model.check()
    model.end()


def test_a_kill_at_every_step_of_one_life_of_a_pod() -> None:
    for steps in range(40):
        model = Model([{"x", "y"}, {"y"}, {"z"}])
        for operation in ("prepare", "unprepare"):
            model.run(operation, 0, steps)
            model.check()
            model.run(operation, 0, None)
            assert ("p1" in model.running) == (operation == "prepare")
            model.check()
        assert model.world.prepared == set()
        model.end()
