# SPDX-License-Identifier: Apache-2.0
"""Tests of mistakes in tests and controllers: each fails with a message that says what to do."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.operator import (
    Controller,
    ControllerContext,
    CustomKind,
    CustomObject,
    NotFound,
    ObjectKey,
    TerminalError,
    own_key,
)
from kubeloop.testing import Cluster, ClusterCheckError, UnknownKindError, config_map
from tests.unit.testing.counting_controller import NOTE, counting


class Garden(CustomObject, frozen=True, kw_only=True):
    beds: int = 1


GARDENS = CustomKind(Garden, "gardens.example.com/v1")


def failing(error: Exception, good: int = 0) -> object:
    """Return the wiring of a controller whose reconciles fail after some good ones."""
    tries = 0

    def wire(context: ControllerContext) -> Controller[ObjectKey]:
        config_maps = context.informers.for_resource(ConfigMap, labels="mine")

        async def reconcile(_: ObjectKey) -> None:
            nonlocal tries
            tries += 1
            if tries > good:
                raise error

        controller = Controller("failing", reconcile, context.clock)
        controller.watches(config_maps, own_key)
        return controller

    return wire


def close_error(cluster: Cluster, *, strict: bool = False) -> str:
    with pytest.raises(ClusterCheckError) as caught:
        cluster.close(strict=strict)
    assert cluster.is_closed
    return str(caught.value)


# Reconciles.


def test_reconcile_that_always_raises_fails_the_close() -> None:
    cluster = Cluster()
    cluster.add(config_map("one", labels={"mine": "yes"}))
    cluster.start(failing(ValueError("no idea")))
    text = close_error(cluster)
    assert "failing has failed at 1 of 1 tries for default/one: ValueError: no idea" in text
    assert "may_fail=True" in text


def test_other_errors_count_after_some_tries(cluster: Cluster) -> None:
    cluster.add(config_map("one", labels={"mine": "yes"}))
    cluster.start(failing(NotFound("gone")))
    with cluster.fork() as fork:
        fork.start(failing(NotFound("gone")))
        fork.advance(minutes=1)
        assert "failing has failed at" in close_error(fork, strict=True)


def test_loop_that_may_fail_is_closed_silently() -> None:
    with Cluster() as cluster:
        cluster.add(config_map("one", labels={"mine": "yes"}))
        cluster.start(failing(ValueError("no idea")), may_fail=True)


@pytest.mark.parametrize(("error", "good"), [(TerminalError("wrong spec"), 0), (ValueError("late"), 1)])
def test_terminal_errors_and_successes_are_no_mistakes(error: Exception, good: int) -> None:
    with Cluster() as cluster:
        cluster.add(config_map("one", labels={"mine": "yes"}))
        cluster.start(failing(error, good))


def test_error_in_the_block_is_not_hidden() -> None:
    def body() -> None:
        with Cluster() as cluster:
            cluster.add(config_map("one", labels={"mine": "yes"}))
            cluster.start(failing(ValueError("no idea")))
            raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        body()


def test_own_clusters_are_closed_less_strictly() -> None:
    with Cluster() as cluster:
        cluster.faults.fail("delete")
        cluster.add(config_map("one", labels={"mine": "yes"}))
        cluster.start(failing(NotFound("gone")))
        cluster.advance(minutes=1)


# Kinds.


def gardens(context: ControllerContext) -> Controller[ObjectKey]:
    """Wire a controller that forgets to declare its kind."""

    async def reconcile(key: ObjectKey) -> None:
        await context.client.patch(GARDENS.resource, key.name, {"beds": 2}, key.namespace)

    controller = Controller("gardens", reconcile, context.clock)
    controller.watches(context.informers.for_resource(GARDENS.resource), own_key)
    return controller


def test_watch_of_an_unknown_kind_fails_the_start(cluster: Cluster) -> None:
    with pytest.raises(UnknownKindError, match=r"gardens watches gardens\.example\.com/v1, .* context\.declare_kind"):
        cluster.start(gardens)
    cluster.define(GARDENS)
    cluster.add(Garden(metadata=config_map("g").metadata))
    cluster.start(gardens)
    cluster.advance(minutes=1)
    assert cluster.client.get(Garden, "g", "default").beds == 2


def test_beta_resource_that_is_off_fails_the_start(cluster: Cluster) -> None:
    from kubeloop.types.coordination_v1beta1 import LeaseCandidate

    def wire(context: ControllerContext) -> Controller[ObjectKey]:
        async def reconcile(_: ObjectKey) -> None: ...

        controller = Controller("candidates", reconcile, context.clock)
        controller.watches(context.informers.for_resource(LeaseCandidate), own_key)
        return controller

    with pytest.raises(UnknownKindError, match=r"leasecandidates.*needs runtime_config"):
        cluster.start(wire)


# Faults.


@pytest.mark.parametrize("verb", ["creat", "CREATE", "post"])
def test_unknown_verb_is_refused(cluster: Cluster, verb: str) -> None:
    with pytest.raises(ValueError, match=rf"unknown verb '{verb}'.*Verbs are create, delete, .* write"):
        cluster.faults.fail(verb)


@pytest.mark.parametrize(("resource", "hint"), [
    ("configmap", "did you mean configmaps?"), ("ConfigMap", "by its plural"), ("pods/status", "by its plural"),
    ("gardens", r"cluster\.define"),
])  # fmt: skip
def test_unknown_resource_is_refused(cluster: Cluster, resource: str, hint: str) -> None:
    for use in (cluster.faults.conflict, cluster.faults.lose_answers):
        with pytest.raises(ValueError, match=f"does not serve '{resource}'.*{hint}"):
            use("patch", resource)
    with pytest.raises(ValueError, match="does not serve"):
        cluster.faults.drop_watches(resource)


def test_resources_may_be_named_with_their_group(cluster: Cluster) -> None:
    cluster.define(GARDENS)
    for resource in ("deployments", "deployments.apps", "gardens", "gardens.example.com", "tokenreviews"):
        cluster.faults.delay(1, "write", resource, optional=True)


def test_fault_without_calls_fails_the_close() -> None:
    cluster = Cluster()
    cluster.faults.fail("delete", "configmaps", name="one")
    cluster.faults.delay(1, "create", "secrets")
    cluster.faults.clear()
    text = close_error(cluster, strict=True)
    assert "no call matched the fault on delete of configmaps named one." in text
    assert "no call matched the fault on create of secrets." in text
    assert "optional=True" in text


def test_matched_and_optional_faults_are_no_mistakes(cluster: Cluster) -> None:
    cluster.faults.fail("patch", "configmaps", chance=0.0)
    cluster.faults.fail("delete", optional=True)
    cluster.add(config_map("one", {"a": "1"}, labels={"count": "yes"}))
    cluster.start(counting)
    assert cluster.client.get(ConfigMap, "one", "default").metadata.annotations[NOTE] == "1"


# Forks.


def test_open_fork_fails_the_close_and_is_closed() -> None:
    cluster = Cluster()
    fork = cluster.fork()
    assert "a fork is not closed. Write `with cluster.fork() as fork:`" in close_error(cluster)
    assert fork.is_closed
