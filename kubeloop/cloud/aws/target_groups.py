"""Target groups of load balancers."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Service
from kubeloop.cloud.aws.calls import AwsClient, AwsError
from kubeloop.cloud.aws.wanted import ListenerSpec, group_prefix, health_check, stickiness


class TargetGroups:
    """Target groups of load balancers."""

    def __init__(self, aws: AwsClient, vpc: str) -> None:
        self._aws = aws
        self._vpc = vpc

    async def of(self, balancer: str) -> dict[str, str]:
        """Return all target groups of a load balancer, by name."""
        prefix = group_prefix(balancer)
        found = await self._aws.all_elb("describe_target_groups", "TargetGroups")
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

    async def direct(self, arn: str, wanted: frozenset[str]) -> None:
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

    async def delete_of(self, balancer: str, keep: frozenset[str] = frozenset()) -> None:
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
