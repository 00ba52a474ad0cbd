# SPDX-License-Identifier: Apache-2.0
"""Tests of AWS resources for a service, read from moto's state, and of decisions made without the cloud."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kubeloop.api.generated.core_v1 import Node, Service, ServicePort, ServiceSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.cloud.aws.instances import instance_id_of
from kubeloop.cloud.aws.load_balancer_spec import (
    INTERNAL,
    health_check,
    load_balancer_name,
    ports_of,
    scheme,
    targets_of,
)
from kubeloop.cloud.aws.routes import route_of
from kubeloop.cloud.aws.security_groups import parse_permissions, to_ip_permissions
from kubeloop.cloud.provider import CloudError, Route
from kubeloop.cloud.provider_registry import InvalidProvider, ProviderDependencies, load
from tests.cloud.environments import CLUSTER, AwsEnvironment, aws_environment, node_of

pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning", "default::ResourceWarning")
needs_moto = pytest.mark.aws
UID = "0a1b2c3d-0000-4000-8000-000000000000"


def port(number: int, node_port: int, protocol: str = "TCP") -> ServicePort:
    return ServicePort(name=f"p{number}-{protocol.lower()}", port=number, node_port=node_port, protocol=protocol)


def service(*ports: ServicePort, annotations: dict[str, str] | None = None, **spec: Any) -> Service:
    return Service(
        metadata=ObjectMeta(name="web", namespace="default", uid=UID, annotations=annotations or {}),
        spec=ServiceSpec(type="LoadBalancer", ports=ports or (port(80, 30080),), **spec),
    )


# Decided without asking.


def test_name_follows_upstream_and_length_limit() -> None:
    assert load_balancer_name(service()) == "a0a1b2c3d00004000800000000000000"
    assert len(load_balancer_name(service())) == 32
    assert all(len(one.group) <= 32 for one in ports_of(service(port(65535, 32767, "UDP"))))


def test_same_node_port_of_two_protocols_has_two_groups() -> None:
    both = ports_of(service(port(53, 30053), port(53, 30053, "UDP")))
    assert len({one.group for one in both}) == 2


@pytest.mark.parametrize("bad", [port(80, 0), port(80, 30080, "SCTP")])
def test_unsupported_protocol_is_rejected(bad: ServicePort) -> None:
    with pytest.raises(CloudError):
        ports_of(service(bad))


def test_instances_come_from_matching_provider_ids() -> None:
    assert instance_id_of("aws:///us-east-1a/i-1") == "i-1"
    assert targets_of([node_of("a", "aws:///z/i-1"), node_of("b", "local://b"), node_of("c")]) == {"i-1"}


def test_local_traffic_is_checked_by_http() -> None:
    local = service(external_traffic_policy="Local", health_check_node_port=31000)
    assert health_check(local)["HealthCheckPort"] == "31000"
    assert health_check(service()) == {"HealthCheckProtocol": "TCP"}


def test_annotation_makes_a_balancer_internal() -> None:
    assert scheme(service()) == "internet-facing"
    assert scheme(service(annotations={INTERNAL: "true"})) == "internal"
    assert scheme(service(annotations={INTERNAL: "false"})) == "internet-facing"


def test_security_group_permissions_round_trip() -> None:
    wanted = frozenset({("tcp", 80, "10.0.0.0/8"), ("udp", 53, "fd00::/8")})
    assert parse_permissions(to_ip_permissions(wanted)) == wanted


def test_gateway_routes_are_ignored_and_blackholes_are_listed() -> None:
    names = {"i-1": "n1"}
    ours = {"DestinationCidrBlock": "10.1.0.0/24", "InstanceId": "i-1", "State": "active"}
    assert route_of(ours, names) == Route("n1", "10.1.0.0/24", "i-1-10.1.0.0/24", False)
    assert route_of({"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw"}, names) is None
    lost = route_of({"DestinationCidrBlock": "10.1.0.0/24", "State": "blackhole"}, names)
    assert lost is not None
    assert lost.blackhole


def test_missing_boto3_is_reported_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(InvalidProvider, match=r"pip install 'kubeloop\[aws\]'"):
        load("aws", ProviderDependencies(None, None, None))  # type: ignore[arg-type]


# Found at Amazon's.


@pytest.fixture
def env(tmp_path: Path) -> Iterator[AwsEnvironment]:
    with ExitStack() as parts:
        made = aws_environment(tmp_path, parts)
        assert isinstance(made, AwsEnvironment)
        yield made


def machine(env: AwsEnvironment) -> Node:
    node = env.add_machine()
    assert env.provider.instances is not None
    found = asyncio.run(env.provider.instances.metadata(node))
    assert found is not None
    return structs.replace(node, spec=structs.replace(node.spec, provider_id=found.provider_id))


def ensure(env: AwsEnvironment, wanted: Service, *nodes: Node) -> None:
    assert env.provider.load_balancers is not None
    asyncio.run(env.provider.load_balancers.ensure(CLUSTER, wanted, nodes))


def delete(env: AwsEnvironment, wanted: Service) -> None:
    assert env.provider.load_balancers is not None
    asyncio.run(env.provider.load_balancers.delete(CLUSTER, wanted))


def listeners(env: AwsEnvironment) -> dict[int, int]:
    """Return the node port of the targets by listener port."""
    (balancer,) = env.elb.describe_load_balancers()["LoadBalancers"]
    groups = {one["TargetGroupArn"]: one["Port"] for one in env.elb.describe_target_groups()["TargetGroups"]}
    found = env.elb.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    return {one["Port"]: groups[one["DefaultActions"][0]["TargetGroupArn"]] for one in found}


def security_groups(env: AwsEnvironment) -> list[Any]:
    filters = [{"Name": "group-name", "Values": [load_balancer_name(service())]}]
    found: list[Any] = env.ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    return found


@needs_moto
def test_listeners_follow_ports_and_unused_target_groups_are_deleted(env: AwsEnvironment) -> None:
    ensure(env, service(port(80, 30080), port(443, 30443)))
    assert listeners(env) == {80: 30080, 443: 30443}
    ensure(env, service(port(80, 31111), port(8443, 30443)))
    assert listeners(env) == {80: 31111, 8443: 30443}
    assert len(env.elb.describe_target_groups()["TargetGroups"]) == 2


@needs_moto
def test_targets_are_the_nodes_instances(env: AwsEnvironment) -> None:
    first, second = machine(env), machine(env)
    ensure(env, service(), first)
    ensure(env, service(), second)
    (group,) = env.elb.describe_target_groups()["TargetGroups"]
    told = env.elb.describe_target_health(TargetGroupArn=group["TargetGroupArn"])["TargetHealthDescriptions"]
    there = [one["Target"]["Id"] for one in told if one["TargetHealth"]["State"] != "draining"]
    assert there == [instance_id_of(second.spec.provider_id)]


@needs_moto
def test_affinity_makes_targets_sticky(env: AwsEnvironment) -> None:
    ensure(env, service(session_affinity="ClientIP"))
    (group,) = env.elb.describe_target_groups()["TargetGroups"]
    told = env.elb.describe_target_group_attributes(TargetGroupArn=group["TargetGroupArn"])["Attributes"]
    assert {one["Key"]: one["Value"] for one in told}["stickiness.enabled"] == "true"


@needs_moto
def test_only_allowed_source_ranges_are_admitted(env: AwsEnvironment) -> None:
    ensure(env, service())
    ensure(env, service(load_balancer_source_ranges=("10.0.0.0/8", "192.168.0.0/16")))
    (group,) = security_groups(env)
    assert parse_permissions(group["IpPermissions"]) == {("tcp", 80, "10.0.0.0/8"), ("tcp", 80, "192.168.0.0/16")}


@needs_moto
def test_deleted_load_balancer_leaves_no_resources(env: AwsEnvironment) -> None:
    ensure(env, service(port(80, 30080), port(443, 30443)))
    delete(env, service())
    assert env.elb.describe_load_balancers()["LoadBalancers"] == []
    assert env.elb.describe_target_groups()["TargetGroups"] == []
    assert security_groups(env) == []
