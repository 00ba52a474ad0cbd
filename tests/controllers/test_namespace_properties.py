# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong meanwhile, namespaces end empty, and others keep what they have."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import ConfigMap, Namespace
from kubeloop.controllers import garbage_collector
from kubeloop.controllers import namespace as namespace_controller
from kubeloop.testing import Cluster, config_map, deployment, namespace, node, pod, secret

HELD = ("example.com/held",)
KINDS = ("configmaps", "secrets", "pods", "deployments", "serviceaccounts")
STEPS = 15


class NamespaceHarness:
    """Two namespaces, of which one is on its way out, and chance."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        cluster.add(node("machine"), namespace("away"), namespace("kept"))
        cluster.settle()
        for name in ("away", "kept"):
            self._furnish(name)
        self.kept = self._content("kept")
        cluster.start(garbage_collector.wire)
        self.loop = cluster.start(namespace_controller.wire)

    def _furnish(self, name: str) -> None:
        for number in range(self.chance.randrange(1, 6)):
            finalizers = HELD if self.chance.random() < 0.5 else ()
            made = (
                config_map(f"object-{number}", namespace=name, finalizers=finalizers),
                secret(f"object-{number}", namespace=name),
                pod(f"object-{number}", name, node=self.chance.choice((None, "machine")), phase="Running"),
                deployment(f"object-{number}", name, replicas=0),
            )
            self.cluster.add(self.chance.choice(made))

    def _content(self, name: str) -> set[tuple[str, str]]:
        client = self.cluster.client
        return {(kind, one.metadata.name) for kind in KINDS for one in client.list(kind, name).items}

    def step(self) -> None:
        self.chance.choice((self.disturb, self.disturb, self.wait, self.kill))()

    def disturb(self) -> None:
        faults, times = self.cluster.faults, self.chance.randrange(1, 4)
        self.chance.choice(
            (
                lambda: faults.conflict("write", "namespaces", times=times),
                lambda: faults.lose_answers("write", times=times),
                lambda: faults.fail("deletecollection", times=times),
                lambda: faults.fail("list", times=times),
                lambda: faults.drop_watches(),
                lambda: faults.expire_watches("configmaps"),
            )
        )()

    def wait(self) -> None:
        self.cluster.advance(self.chance.choice((0, 0.01, 1, 10)))

    def kill(self) -> None:
        self.cluster.stop(self.loop)
        self.loop = self.cluster.start(namespace_controller.wire)

    def end(self) -> None:
        """Terminate pods like nodes, and remove finalizers."""
        self.cluster.faults.clear()
        client = self.cluster.client
        for one in client.list(ConfigMap, "away").items:
            client.patch(ConfigMap, one.metadata.name, {"metadata": {"finalizers": []}}, "away")
        for one in client.list("pods", "away").items:
            client.delete("pods", one.metadata.name, "away", grace_seconds=0)
        self.cluster.advance(minutes=5)

    @property
    def left(self) -> list[str]:
        return [one.metadata.name for one in self.cluster.client.list(Namespace).items]

    @property
    def still_kept(self) -> set[tuple[str, str]]:
        return self._content("kept")


@settings(max_examples=12, deadline=None, print_blob=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_deleted_namespace_is_finalized_and_others_keep_their_content(seed: int) -> None:
    with Cluster(seed=seed, shuffle=True) as cluster:
        env = NamespaceHarness(cluster, seed)
        cluster.client.delete(Namespace, "away")
        for _ in range(STEPS):
            env.step()
        env.end()
        assert "away" not in env.left
        assert env.still_kept == env.kept
