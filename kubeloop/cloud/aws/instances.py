# SPDX-License-Identifier: Apache-2.0
"""Maps nodes to EC2 instances, by the ID in `aws:///zone/id` or by the private DNS name."""

from __future__ import annotations

from typing import Any

from kubeloop.api.generated.core_v1 import Node, NodeAddress
from kubeloop.cloud.aws.client import AwsClient, AwsError
from kubeloop.cloud.provider import InstanceMetadata, InstanceNotFound

_NOT_FOUND = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed")
_THERE = ("pending", "running", "stopping", "stopped", "shutting-down")
# Fields of an instance and the types of node addresses.
_ADDRESSES = (
    ("PrivateIpAddress", "InternalIP"),
    ("PublicIpAddress", "ExternalIP"),
    ("PrivateDnsName", "InternalDNS"),
    ("PrivateDnsName", "Hostname"),
    ("PublicDnsName", "ExternalDNS"),
)


def instance_id_of(provider_id: str) -> str:
    """Return the instance ID of a provider ID; empty if it is not an AWS one."""
    return provider_id.rpartition("/")[2] if provider_id.startswith("aws://") else ""


def metadata_of(instance: Any) -> InstanceMetadata:
    """Build the metadata of an instance."""
    zone = str(instance["Placement"]["AvailabilityZone"])
    return InstanceMetadata(
        provider_id=f"aws:///{zone}/{instance['InstanceId']}",
        instance_type=str(instance["InstanceType"]),
        addresses=tuple(
            NodeAddress(type=kind, address=str(instance[name])) for name, kind in _ADDRESSES if instance.get(name)
        ),
        zone=zone,
        region=zone.rstrip("abcdefghijklmnopqrstuvwxyz"),
    )


class AwsInstances:
    """Instances of nodes on EC2."""

    def __init__(self, aws: AwsClient) -> None:
        self._aws = aws

    async def exists(self, node: Node) -> bool:
        """Return True if the node's instance exists."""
        return await self._find(node) is not None

    async def is_shut_down(self, node: Node) -> bool:
        """Return True if the node's instance is stopped."""
        return str((await self._get(node))["State"]["Name"]) == "stopped"

    async def metadata(self, node: Node) -> InstanceMetadata:
        """Return the metadata of the node's instance; raises InstanceNotFound."""
        return metadata_of(await self._get(node))

    async def _get(self, node: Node) -> Any:
        found = await self._find(node)
        if found is None:
            raise InstanceNotFound
        return found

    async def _find(self, node: Node) -> Any | None:
        """Return the instance, or None; a terminated one counts as gone, though AWS lists it for another hour."""
        try:
            rows = await self._aws.ec2_pages("describe_instances", "Reservations", **_selection(node))
        except AwsError as error:
            if error.code in _NOT_FOUND:
                return None
            raise
        found = [one for row in rows for one in row["Instances"] if one["State"]["Name"] in _THERE]
        return found[0] if found else None


def _selection(node: Node) -> dict[str, Any]:
    if instance := instance_id_of(node.spec.provider_id):
        return {"InstanceIds": [instance]}
    return {"Filters": [{"Name": "private-dns-name", "Values": [node.metadata.name]}]}
