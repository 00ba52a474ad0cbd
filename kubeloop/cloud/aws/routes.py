# SPDX-License-Identifier: Apache-2.0
"""Routes of a VPC route table to the instances of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubeloop.api.generated.core_v1 import Node
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.cloud.aws.client import AwsClient, AwsError
from kubeloop.cloud.aws.config_file import AwsSettings
from kubeloop.cloud.aws.instances import instance_id_of
from kubeloop.cloud.provider import CloudError, Route
from kubeloop.runtime.informer.informer import SharedInformerFactory


class AwsRoutes:
    """Routes of a cluster on AWS."""

    def __init__(self, aws: AwsClient, said: AwsSettings, informers: SharedInformerFactory) -> None:
        self._aws = aws
        self._table = said.route_table
        self._nodes = informers.for_resource(resource_of_class(Node))

    async def list(self, cluster: str) -> Sequence[Route]:
        """List the routes to instances."""
        table = await self._found_table(cluster)
        names = {instance_id_of(one.spec.provider_id): one.metadata.name for one in self._nodes.list()}
        return [route for row in table["Routes"] if (route := route_of(row, names)) is not None]

    async def create(self, cluster: str, hint: str, route: Route) -> None:
        """Create or replace a route to a node's instance."""
        node: Node | None = self._nodes.get("", route.target_node)
        instance = instance_id_of(node.spec.provider_id) if node is not None else ""
        if not instance:
            raise CloudError(f"node {route.target_node} has no instance")
        # Otherwise AWS drops packets that are not from or to the instance itself, such as those of pods.
        await self._aws.ec2("modify_instance_attribute", InstanceId=instance, SourceDestCheck={"Value": False})
        table = (await self._found_table(cluster))["RouteTableId"]
        about = {"RouteTableId": table, "InstanceId": instance, **_destination(route)}
        try:
            await self._aws.ec2("create_route", **about)
        except AwsError as error:
            if error.code != "RouteAlreadyExists":
                raise
            await self._aws.ec2("replace_route", **about)

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route."""
        table = (await self._found_table(cluster))["RouteTableId"]
        await self._aws.ec2("delete_route", RouteTableId=table, **_destination(route))

    async def _found_table(self, cluster: str) -> Any:
        about: dict[str, Any] = {"Filters": [{"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{cluster}"]}]}
        if self._table:
            about = {"RouteTableIds": [self._table]}
        found = await self._aws.ec2_pages("describe_route_tables", "RouteTables", **about)
        if len(found) != 1:
            raise CloudError(f"{len(found)} route tables are tagged kubernetes.io/cluster/{cluster}; expected one")
        return found[0]


def route_of(row: Any, names: dict[str, str]) -> Route | None:
    """Convert a row of the table; None for routes that lead to no instance, and so are not ours."""
    destination = str(row.get("DestinationCidrBlock") or row.get("DestinationIpv6CidrBlock") or "")
    blackhole = row.get("State") == "blackhole"
    instance = str(row.get("InstanceId") or "")
    if not destination or not (instance or blackhole):
        return None
    return Route(names.get(instance, ""), destination, f"{instance}-{destination}", blackhole)


def _destination(route: Route) -> dict[str, str]:
    name = "DestinationIpv6CidrBlock" if ":" in route.destination else "DestinationCidrBlock"
    return {name: route.destination}
