# SPDX-License-Identifier: Apache-2.0
"""Security group of each load balancer, which allows exactly the desired source ranges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.cloud.aws.client import AwsClient, AwsError
from kubeloop.cloud.provider import RetryAfter

Permission = tuple[str, int, str]  # protocol, port, range
_STILL_USED = "DependencyViolation"
_RETRY_SECONDS = 10.0  # a load balancer's interfaces are removed some time after it


class SecurityGroups:
    """Security groups of load balancers."""

    def __init__(self, aws: AwsClient, vpc: str) -> None:
        self._aws = aws
        self._vpc = vpc

    async def ensure(self, name: str, tags: list[dict[str, str]], wanted: frozenset[Permission]) -> str:
        """Ensure a group with exactly these permissions, and return its ID."""
        found = await self._find(name)
        if found is None:
            made = await self._aws.ec2(
                "create_security_group",
                GroupName=name,
                Description=f"Clients of the load balancer {name}",
                VpcId=self._vpc,
                TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
            )
            found = {"GroupId": made["GroupId"], "IpPermissions": []}
        group, present = str(found["GroupId"]), parse_permissions(found["IpPermissions"])
        if extra := present - wanted:
            await self._aws.ec2("revoke_security_group_ingress", GroupId=group, IpPermissions=to_ip_permissions(extra))
        if missing := wanted - present:
            await self._aws.ec2(
                "authorize_security_group_ingress", GroupId=group, IpPermissions=to_ip_permissions(missing)
            )
        return group

    async def delete(self, name: str) -> None:
        """Delete the group; raises RetryAfter while it is in use."""
        found = await self._find(name)
        if found is None:
            return
        try:
            await self._aws.ec2("delete_security_group", GroupId=found["GroupId"])
        except AwsError as error:
            if error.code == _STILL_USED:
                raise RetryAfter(f"the security group {name} is still in use", _RETRY_SECONDS) from error
            raise

    async def _find(self, name: str) -> Any | None:
        filters = [{"Name": "group-name", "Values": [name]}, {"Name": "vpc-id", "Values": [self._vpc]}]
        found = await self._aws.ec2_pages("describe_security_groups", "SecurityGroups", Filters=filters)
        return found[0] if found else None


def parse_permissions(rows: Iterable[Any]) -> frozenset[Permission]:
    """Parse the permissions of a group."""
    found: set[Permission] = set()
    for row in rows:
        ranges = [one["CidrIp"] for one in row.get("IpRanges", ())]
        ranges += [one["CidrIpv6"] for one in row.get("Ipv6Ranges", ())]
        found |= {(str(row["IpProtocol"]), int(row["FromPort"]), cidr) for cidr in ranges if "FromPort" in row}
    return frozenset(found)


def to_ip_permissions(permissions: Iterable[Permission]) -> list[dict[str, Any]]:
    """Format permissions for AWS."""
    rows = []
    for protocol, port, cidr in sorted(permissions):
        ranges = {"Ipv6Ranges": [{"CidrIpv6": cidr}]} if ":" in cidr else {"IpRanges": [{"CidrIp": cidr}]}
        rows.append({"IpProtocol": protocol, "FromPort": port, "ToPort": port, **ranges})
    return rows
