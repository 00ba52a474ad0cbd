# SPDX-License-Identifier: Apache-2.0
"""Network load balancer for each Service, with a listener and a target group for each port.

Every step compares the current with the desired state and changes the difference, so that an interrupted one is simply
repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.generated.core_v1 import LoadBalancerIngress, LoadBalancerStatus, Node, Service
from kubeloop.cloud.aws.client import AwsClient, AwsError
from kubeloop.cloud.aws.config_file import AwsSettings
from kubeloop.cloud.aws.load_balancer_spec import (
    ListenerSpec,
    group_prefix,
    health_check,
    load_balancer_name,
    permissions,
    ports_of,
    scheme,
    stickiness,
    targets_of,
)
from kubeloop.cloud.aws.security_groups import SecurityGroups
from kubeloop.cloud.provider import CloudError


class AwsLoadBalancers:
    """Load balancers of Services on AWS."""

    def __init__(self, aws: AwsClient, said: AwsSettings) -> None:
        self._aws = aws
        self._vpc = said.vpc
        self._subnets = said.subnets
        self._security = SecurityGroups(aws, said.vpc)
        self._targets = TargetGroups(aws, said.vpc)

    async def status(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Return the status of the Service's load balancer, or None."""
        found = await self._find(load_balancer_name(service))
        return None if found is None else _status(found)

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or update the load balancer; a changed scheme requires a new one."""
        if not self._vpc:
            raise CloudError("--cloud-config has no vpc, which load balancers require")
        ports, name, tags = ports_of(service), load_balancer_name(service), _tags(cluster, service)
        security = await self._security.ensure(name, tags, permissions(service))
        found = await self._find(name)
        if found is not None and found["Scheme"] != scheme(service):  # the only property that AWS cannot change
            await self._remove(name, found)
            found = None
        if found is None:
            found = await self._create(name, service, security, tags)
        groups = {one.group: await self._targets.ensure(one, service, tags) for one in ports}
        await self._listen(found["LoadBalancerArn"], ports, groups)
        for arn in groups.values():
            await self._targets.register_targets(arn, targets_of(nodes))
        await self._targets.delete_unused(name, keep=frozenset(groups))
        return _status(found)

    async def update_hosts(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Update the registered nodes."""
        name, wanted = load_balancer_name(service), targets_of(nodes)
        present = await self._targets.of(name)
        for one in ports_of(service):
            if one.group not in present:
                raise CloudError(f"the target group {one.group} is missing")
            await self._targets.register_targets(present[one.group], wanted)

    async def delete(self, cluster: str, service: Service) -> None:
        """Delete the load balancer with its target groups and security group."""
        name = load_balancer_name(service)
        found = await self._find(name)
        await self._remove(name, found)
        await self._security.delete(name)

    async def _remove(self, name: str, found: Any | None) -> None:
        """Delete the load balancer with its listeners, then its target groups."""
        if found is not None:
            await self._aws.elb("delete_load_balancer", LoadBalancerArn=found["LoadBalancerArn"])
        await self._targets.delete_unused(name)

    async def _find(self, name: str) -> Any | None:
        try:
            return (await self._aws.elb("describe_load_balancers", Names=[name]))["LoadBalancers"][0]
        except AwsError as error:
            if error.code == "LoadBalancerNotFound":
                return None
            raise

    async def _create(self, name: str, service: Service, security: str, tags: list[dict[str, str]]) -> Any:
        made = await self._aws.elb(
            "create_load_balancer",
            Name=name,
            Type="network",
            Scheme=scheme(service),
            Subnets=list(self._subnets) or await self._all_subnets(),
            SecurityGroups=[security],
            Tags=tags,
        )
        return made["LoadBalancers"][0]

    async def _all_subnets(self) -> list[str]:
        """Return one subnet of each zone, as AWS requires."""
        filters = [{"Name": "vpc-id", "Values": [self._vpc]}]
        found = await self._aws.ec2_pages("describe_subnets", "Subnets", Filters=filters)
        by_zone = {one["AvailabilityZone"]: one["SubnetId"] for one in sorted(found, key=lambda one: one["SubnetId"])}
        return list(by_zone.values())

    async def _listen(self, balancer: str, ports: Sequence[ListenerSpec], groups: dict[str, str]) -> None:
        found = await self._aws.elb_pages("describe_listeners", "Listeners", LoadBalancerArn=balancer)
        present = {(one["Port"], one["Protocol"]): one for one in found}
        wanted = {(one.port, one.protocol): groups[one.group] for one in ports}
        for key, one in present.items():
            if key not in wanted:
                await self._aws.elb("delete_listener", ListenerArn=one["ListenerArn"])
        for (port, protocol), group in wanted.items():
            actions = [{"Type": "forward", "TargetGroupArn": group}]
            old = present.get((port, protocol))
            if old is None:
                await self._aws.elb(
                    "create_listener", LoadBalancerArn=balancer, Port=port, Protocol=protocol, DefaultActions=actions
                )
            elif old["DefaultActions"][0].get("TargetGroupArn") != group:
                await self._aws.elb("modify_listener", ListenerArn=old["ListenerArn"], DefaultActions=actions)


def _status(found: Any) -> LoadBalancerStatus:
    return LoadBalancerStatus(ingress=(LoadBalancerIngress(hostname=str(found["DNSName"])),))


def _tags(cluster: str, service: Service) -> list[dict[str, str]]:
    meta = service.metadata
    return [
        {"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"},
        {"Key": "kubernetes.io/service-name", "Value": f"{meta.namespace}/{meta.name}"},
    ]


class TargetGroups:
    """Target groups of load balancers."""

    def __init__(self, aws: AwsClient, vpc: str) -> None:
        self._aws = aws
        self._vpc = vpc

    async def of(self, balancer: str) -> dict[str, str]:
        """Return all target groups of a load balancer, by name."""
        prefix = group_prefix(balancer)
        found = await self._aws.elb_pages("describe_target_groups", "TargetGroups")
        return {
            one["TargetGroupName"]: one["TargetGroupArn"] for one in found if one["TargetGroupName"].startswith(prefix)
        }

    async def ensure(self, port: ListenerSpec, service: Service, tags: list[dict[str, str]]) -> str:
        """Ensure the target group of a port, with the Service's health check and stickiness; returns its ARN."""
        arn = await self._find(port.group)
        if arn is None:
            made = await self._aws.elb(
                "create_target_group",
                Name=port.group,
                Protocol=port.protocol,
                Port=port.node_port,
                VpcId=self._vpc,
                TargetType="instance",
                Tags=tags,
                **health_check(service),
            )
            arn = str(made["TargetGroups"][0]["TargetGroupArn"])
        else:
            await self._aws.elb("modify_target_group", TargetGroupArn=arn, **health_check(service))
        await self._aws.elb("modify_target_group_attributes", TargetGroupArn=arn, Attributes=stickiness(service))
        return arn

    async def register_targets(self, arn: str, wanted: frozenset[str]) -> None:
        """Register exactly these instances with a target group."""
        told = await self._aws.elb("describe_target_health", TargetGroupArn=arn)
        present = {
            str(one["Target"]["Id"])
            for one in told["TargetHealthDescriptions"]
            if one["TargetHealth"]["State"] != "draining"
        }
        if missing := sorted(wanted - present):
            await self._aws.elb("register_targets", TargetGroupArn=arn, Targets=[{"Id": one} for one in missing])
        if extra := sorted(present - wanted):
            await self._aws.elb("deregister_targets", TargetGroupArn=arn, Targets=[{"Id": one} for one in extra])

    async def delete_unused(self, balancer: str, keep: frozenset[str] = frozenset()) -> None:
        """Delete a load balancer's unused target groups."""
        for name, arn in (await self.of(balancer)).items():
            if name not in keep:
                await self._aws.elb("delete_target_group", TargetGroupArn=arn)

    async def _find(self, name: str) -> str | None:
        try:
            found = await self._aws.elb("describe_target_groups", Names=[name])
        except AwsError as error:
            if error.code == "TargetGroupNotFound":
                return None
            raise
        return str(found["TargetGroups"][0]["TargetGroupArn"])
