# SPDX-License-Identifier: Apache-2.0
"""A renewal from the cache stores what a patch would store, whatever others do with the lease in between."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.coordination_v1 import Lease, LeaseSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.struct_patch import LeaseRenewalPatch
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.client import Client
from kubeloop.testing.cluster import ADMIN, Cluster

_NAMESPACE, _NAME, _PREFIX = "kube-node-lease", "n1", "/registry/leases/"
_LABELS = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "@renewTime@"[1:-1]]), max_size=2)
_FOREIGN = st.one_of(
    st.builds(lambda labels: {"metadata": {"labels": labels}}, _LABELS),
    st.builds(lambda seconds: {"spec": {"leaseDurationSeconds": seconds}}, st.integers(1, 40)),
    st.builds(
        lambda text: {"spec": {"holderIdentity": text}}, st.sampled_from(["n1", "@renewTime@", '"\\', "@time of the "])
    ),
    st.just({"spec": {"renewTime": "2025-01-01T00:00:00.000001Z"}}),
    st.just({"spec": {"renewTime": None}}),
    st.just({"metadata": {"managedFields": []}}),
    st.just({"metadata": {"finalizers": ["example.com/keep"]}}),
    st.just({"metadata": {"finalizers": None}}),
)
_STEPS = st.one_of(
    st.tuples(st.just("renew"), st.sampled_from([0.0, 0.25, 10.0, 10.0, 10.0])),
    st.tuples(st.just("renew"), st.sampled_from([10.0])),
    st.tuples(st.just("foreign"), _FOREIGN),
    st.tuples(st.just("clock"), st.sampled_from([-30.0, 0.0, 5.0])),
    st.tuples(st.just("delete"), st.none()),
)
# Metrics of the process, not of the cluster.
_OF_THE_PROCESS = ("process_", "python_")


class _Kubelet:
    """Runs the steps in a cluster of its own, with or without the cache."""

    def __init__(self, cached: bool) -> None:
        self.cluster = Cluster(seed=1)
        self._client = Client(InProcessTransport(self.cluster.server, ADMIN), user_agent="kubelet/v1.37")
        self._cached = cached
        self.hits = 0

    def run(self, step: str, value: Any) -> None:
        if step == "clock":
            self.cluster.clock.set_wall_offset(value)
        elif step == "renew":
            self.cluster.advance(value)
            self.cluster.run(self._renew())
        else:
            try:
                if step == "foreign":
                    self.cluster.client.patch(Lease, _NAME, value, _NAMESPACE)
                else:
                    self.cluster.client.delete(Lease, _NAME, _NAMESPACE)
            except NotFound:
                pass

    async def _renew(self) -> None:
        renewal = LeaseRenewalPatch(self.cluster.clock.now())
        if self._cached and await self._client.patch_together(Lease, [_NAME], renewal, _NAMESPACE):
            self.hits += 1
            return
        try:
            await self._client.patch(Lease, _NAME, renewal, _NAMESPACE)
        except NotFound:
            meta, spec = ObjectMeta(name=_NAME, namespace=_NAMESPACE), LeaseSpec(renew_time=renewal.renew_time)
            await self._client.create(Lease(metadata=meta, spec=spec))

    def contents(self) -> tuple[Any, ...]:
        store = self.cluster.server.registry.store
        seen: list[Any] = []
        store.subscribe(_PREFIX, store.compact_revision, seen.extend).cancel()
        return store.revision, store.range(_PREFIX).records, seen

    def metrics(self) -> list[str]:
        lines = self.cluster.server.metrics.render().decode().splitlines()
        return [line for line in lines if not line.startswith(_OF_THE_PROCESS)]

    def why(self) -> list[Any]:
        key = f"{_PREFIX}{_NAMESPACE}/{_NAME}"
        return [one.to_document() for one in self.cluster.server.object_store.causes.entries_of(key)]


_LABEL = {"metadata": {"labels": {"a": "x"}}}
_CLOCK_SET_BACK = [("renew", 10.0), ("foreign", _LABEL), ("renew", 10.0), ("renew", 10.0), ("clock", -30.0)]


@example([*_CLOCK_SET_BACK, ("renew", 0.25)])  # changes the order of managers
@settings(max_examples=40)
@given(st.lists(_STEPS, min_size=1, max_size=14))
def test_cached_renewals_store_the_same_as_patches(steps: list[tuple[str, Any]]) -> None:
    fast, plain = _Kubelet(cached=True), _Kubelet(cached=False)
    with fast.cluster, plain.cluster:
        for step, value in steps:
            fast.run(step, value)
            plain.run(step, value)
        assert fast.contents() == plain.contents()
        assert fast.why() == plain.why()
        assert fast.metrics() == plain.metrics()


def test_undisturbed_renewals_use_the_cache() -> None:
    kubelet = _Kubelet(cached=True)
    with kubelet.cluster:
        for _ in range(5):
            kubelet.run("renew", 10.0)
        assert kubelet.hits == 3  # after the creation and a first patch
