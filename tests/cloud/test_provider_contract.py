# SPDX-License-Identifier: Apache-2.0
"""Contract tests of cloud providers: in memory, local, and AWS against moto.

Amazon's needs boto3 and moto, which do not go with the kubernetes client's python-dateutil: `make test-aws`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kubeloop.api.generated.core_v1 import LoadBalancerStatus, Node, Service, ServicePort, ServiceSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.cloud.provider import InstanceNotFound, Instances, LoadBalancers, Route, Routes
from tests.cloud.environments import CLUSTER, ENVIRONMENTS, CloudEnvironment, node_of
from tests.skips import NEEDS_ROOT

MARKS = {"aws": pytest.mark.aws}

# Deprecation warnings of boto3 and moto are not ours.
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")


@pytest.fixture(params=[pytest.param(one, marks=MARKS.get(one, ())) for one in ENVIRONMENTS])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CloudEnvironment]:
    with ExitStack() as parts:
        yield ENVIRONMENTS[request.param](tmp_path, parts)


def run(env: CloudEnvironment, scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        try:
            await scenario()
        finally:
            await env.provider.close()

    asyncio.run(whole())


def instances(env: CloudEnvironment) -> Instances:
    assert env.provider.instances is not None
    return env.provider.instances


def balancers(env: CloudEnvironment) -> LoadBalancers:
    assert env.provider.load_balancers is not None
    return env.provider.load_balancers


def routes(env: CloudEnvironment) -> Routes:
    if env.provider.routes is None:
        pytest.skip(NEEDS_ROOT)
    return env.provider.routes


def service(uid: str, *ports: int, **spec: Any) -> Service:
    numbers = ports or (21290,)
    told = tuple(
        ServicePort(name=f"p{one}", port=one, protocol="TCP", node_port=10000 + one % 20000) for one in numbers
    )
    return Service(
        metadata=ObjectMeta(name=uid, namespace="default", uid=f"{uid}-0000-4000-8000-000000000000"),
        spec=ServiceSpec(type="LoadBalancer", ports=told, **spec),
    )


async def registered(env: CloudEnvironment) -> Node:
    """A node with the provider id that its cloud gives it."""
    node = env.add_machine()
    found = await instances(env).metadata(node)
    assert found is not None
    spec = structs.replace(node.spec, provider_id=found.provider_id)
    return structs.replace(node, spec=spec)


def places(status: LoadBalancerStatus | None) -> list[str]:
    return [] if status is None else [one.ip or one.hostname for one in status.ingress]


# Instances.


def test_instance_is_found_by_name_and_by_provider_id(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        node = env.add_machine()
        by_name = await instances(env).metadata(node)
        assert by_name is not None
        assert "://" in by_name.provider_id
        assert by_name.instance_type
        assert by_name.addresses
        assert by_name.zone
        assert by_name.region
        other_name = node_of("another-name", by_name.provider_id)
        assert await instances(env).metadata(other_name) == by_name
        assert await instances(env).exists(other_name)

    run(env, scenario)


def test_instances_have_distinct_ids(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        first, second = await registered(env), await registered(env)
        assert first.spec.provider_id != second.spec.provider_id

    run(env, scenario)


def test_unknown_instance_does_not_exist(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        nobody = node_of("nobody")
        assert not await instances(env).exists(nobody)
        with pytest.raises(InstanceNotFound):
            await instances(env).metadata(nobody)

    run(env, scenario)


def test_stopped_instance_exists_and_is_shut_down(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        node = await registered(env)
        assert not await instances(env).is_shut_down(node)
        env.stop_machine(node)
        assert await instances(env).is_shut_down(node)
        assert await instances(env).exists(node)

    run(env, scenario)


def test_removed_instance_does_not_exist(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        node = await registered(env)
        env.remove_machine(node)
        assert not await instances(env).exists(node)

    run(env, scenario)


# Load balancers.


def test_load_balancer_exists_from_ensure_to_delete(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        wanted, nodes = service("web"), [await registered(env)]
        assert await balancers(env).status(CLUSTER, wanted) is None
        made = await balancers(env).ensure(CLUSTER, wanted, nodes)
        assert places(made)
        assert places(await balancers(env).status(CLUSTER, wanted)) == places(made)
        await balancers(env).delete(CLUSTER, wanted)
        assert await balancers(env).status(CLUSTER, wanted) is None

    run(env, scenario)


def test_ensure_is_idempotent(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        wanted, nodes = service("web"), [await registered(env)]
        first = await balancers(env).ensure(CLUSTER, wanted, nodes)
        assert await balancers(env).ensure(CLUSTER, wanted, nodes) == first

    run(env, scenario)


def test_deleting_a_missing_load_balancer_succeeds(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        wanted = service("web")
        await balancers(env).delete(CLUSTER, wanted)
        await balancers(env).ensure(CLUSTER, wanted, [])
        await balancers(env).delete(CLUSTER, wanted)
        await balancers(env).delete(CLUSTER, wanted)
        assert await balancers(env).status(CLUSTER, wanted) is None

    run(env, scenario)


def test_two_services_have_distinct_addresses(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        nodes = [await registered(env)]
        first = await balancers(env).ensure(CLUSTER, service("aaaaaaaa"), nodes)
        second = await balancers(env).ensure(CLUSTER, service("bbbbbbbb"), nodes)
        assert places(first) != places(second)
        await balancers(env).delete(CLUSTER, service("aaaaaaaa"))
        assert places(await balancers(env).status(CLUSTER, service("bbbbbbbb"))) == places(second)

    run(env, scenario)


def test_load_balancer_follows_its_service_and_keeps_its_address(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        nodes = [await registered(env)]
        first = await balancers(env).ensure(CLUSTER, service("web", 21290, 21291), nodes)
        changed = service("web", 21291, 21292, session_affinity="ClientIP", load_balancer_source_ranges=("10.0.0.0/8",))
        second = await balancers(env).ensure(CLUSTER, changed, nodes)
        assert places(second) == places(first)
        await balancers(env).delete(CLUSTER, changed)

    run(env, scenario)


def test_hosts_are_added_and_removed(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        wanted, first, second = service("web"), await registered(env), await registered(env)
        before = await balancers(env).ensure(CLUSTER, wanted, [first])
        for hosts in ([first, second], [second], []):
            await balancers(env).update_hosts(CLUSTER, wanted, hosts)
        assert places(await balancers(env).status(CLUSTER, wanted)) == places(before)

    run(env, scenario)


# Routes.


def test_route_exists_from_create_to_delete(env: CloudEnvironment) -> None:
    async def scenario() -> None:
        node = await registered(env)
        env.know(node)
        name = node.metadata.name
        wanted = Route(name, "10.244.1.0/24", target_addresses=node.status.addresses)
        assert await routes(env).list(CLUSTER) in ([], ())
        await routes(env).create(CLUSTER, "hint", wanted)
        (found,) = await routes(env).list(CLUSTER)
        assert (found.target_node, found.destination, found.blackhole) == (name, "10.244.1.0/24", False)
        await routes(env).delete(CLUSTER, found)
        assert not await routes(env).list(CLUSTER)

    run(env, scenario)
