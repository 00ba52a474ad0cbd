# SPDX-License-Identifier: Apache-2.0
"""Property test: a server with the pod create cache responds as one without it, to any sequence of requests."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.registry.pod_create_cache import PodCreateCache
from tests.unit.apiserver.conftest import Answer, ManualClock
from tests.unit.apiserver.secured_api import SecuredApi

SHOP = "/api/v1/namespaces/shop"
LIMITS = [{"type": "Container", "default": {"memory": "64Mi"}, "defaultRequest": {"memory": "32Mi"}}]
REGISTRY = {"imagePullSecrets": [{"name": "registry"}]}
EPHEMERAL = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}  # fmt: skip  # noqa: E501

names = st.sampled_from(["a", "b", "web.1", "Not_A_Name", "x" * 300])
metadata = st.one_of(
    st.fixed_dictionaries({"name": names}),
    st.fixed_dictionaries({"generateName": st.sampled_from(["web-", "w.", "-"])}, optional={"name": names}),
    st.just({}),
)
labels = st.fixed_dictionaries({}, optional={"labels": st.sampled_from([{"app": "a"}, {"app": "b"}, {"bad key": "c"}])})
others = st.fixed_dictionaries(
    {},
    optional={
        "annotations": st.sampled_from([{"note": "1"}, {"note": "2"}]),
        "finalizers": st.just(["example.com/keep"]),
        "resourceVersion": st.sampled_from(["0", "7"]),
        "namespace": st.sampled_from(["shop", "other"]),
        "generation": st.just(5),
        "managedFields": st.just([{"manager": "m", "operation": "Update", "apiVersion": "v1"}]),
    },
)
containers = st.fixed_dictionaries({"name": st.just("c"), "image": st.sampled_from(["nginx", "redis", ""])})
specs = st.fixed_dictionaries(
    {"containers": st.lists(containers, min_size=1, max_size=1)},
    optional={
        "priorityClassName": st.just("gold"),
        "nodeName": st.just("n1"),
        "volumes": st.sampled_from([[{"name": "v", "emptyDir": {}}], [{"name": "v", "ephemeral": EPHEMERAL}]]),
        "terminationGracePeriodSeconds": st.sampled_from([-1, 5]),
    },
)
pods = st.builds(
    lambda identity, meta, more, spec: {"metadata": {**identity, **meta, **more}, "spec": spec},
    metadata, labels, others, specs,
)  # fmt: skip
creates = st.tuples(
    st.just("create"),
    st.tuples(
        pods,
        st.sampled_from(["", "", "?dryRun=All", "?fieldManager=painter", "?fieldValidation=Strict"]),
        st.sampled_from(["admin", "admin", "other"]),
    ),
)
changes = st.tuples(
    st.sampled_from(["limit", "unlimit", "priority", "unpriority", "account", "enforce", "time"]), st.none()
)


class UncachedPods(PodCreateCache):
    """Cache that holds nothing."""

    def signature_of(self, ctx: Any, obj: Any) -> bytes | None:
        return None


class PodApi(SecuredApi):
    """Server with a namespace and a second administrator; each step is a request."""

    def __init__(self, runner: asyncio.Runner, cached: bool) -> None:
        super().__init__(runner, ManualClock())
        if not cached:
            self.server.object_store.pod_create_cache = UncachedPods(AdmissionChain())
        self.knows("other", "system:masters")
        self.namespace("shop")

    def perform(self, step: str, argument: Any) -> Answer | None:
        if step == "create":
            pod, query, user = argument
            return self.post(f"{SHOP}/pods{query}", pod, token=user)
        if step == "limit":
            return self.post(f"{SHOP}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": LIMITS}})
        if step == "priority":
            classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
            return self.post(classes, {"metadata": {"name": "gold"}, "value": 7, "globalDefault": True})
        if step == "account":
            return self.patch("merge", f"{SHOP}/serviceaccounts/default", REGISTRY)
        if step == "enforce":
            level = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
            return self.patch("merge", SHOP, level)
        if step == "time":
            self.clock.advance(10)
            return None
        path = f"{SHOP}/limitranges/l" if step == "unlimit" else "/apis/scheduling.k8s.io/v1/priorityclasses/gold"
        return self.ask("DELETE", path)


@given(st.lists(st.one_of(creates, creates, changes), min_size=2, max_size=12))
@settings(max_examples=60, deadline=None)
def test_cached_server_responds_as_one_without_cache(steps: list[tuple[str, Any]]) -> None:
    repeated = [step for step in steps for _ in range(2)]  # so that the cache is hit
    with asyncio.Runner() as first, asyncio.Runner() as second:
        cached, uncached = PodApi(first, True), PodApi(second, False)
        for step, argument in repeated:
            assert cached.perform(step, argument) == uncached.perform(step, argument)


def test_equal_pods_of_an_http_client_are_cloned() -> None:
    with asyncio.Runner() as runner:
        api = PodApi(runner, True)
        cache = api.server.object_store.pod_create_cache
        for name in ("a", "b", "c"):
            pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
            assert api.post(f"{SHOP}/pods", pod).status == 201
        assert len(cache._entries) == 1


def test_cloned_pod_is_warned_about_its_own_name() -> None:
    with asyncio.Runner() as runner:
        api = PodApi(runner, True)
        answers = [
            api.post(
                f"{SHOP}/pods", {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            )
            for name in ("web", "web.1", "web-2")
        ]
        assert ["Warning" in answer.headers for answer in answers] == [False, True, False]
        assert answers[1].headers["Warning"].startswith("299 - \"metadata.name: this is used in the Pod's hostname")
