# SPDX-License-Identifier: Apache-2.0
"""Derives a node's labels and addresses from the metadata of its instance. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated.core_v1 import Node, NodeAddress
from kubeloop.cloud.provider import CloudError, InstanceMetadata

PROVIDED_IP: Final = "alpha.kubernetes.io/provided-node-ip"
# Each deprecated label with its replacement. The deprecated one takes precedence, as in upstream.
ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
INSTANCE_TYPE: Final = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
_KUBERNETES_OWN: Final = re.compile(r"(^|\.)(kubernetes|k8s)\.io/")


def labels_of(instance: InstanceMetadata, present: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a node; a provider's extra labels neither replace others nor use Kubernetes' domains."""
    found: dict[str, str] = {}
    for names, value in ((INSTANCE_TYPE, instance.instance_type), (ZONE, instance.zone), (REGION, instance.region)):
        if value:
            found.update(dict.fromkeys(names, value))
    more = {
        name: value
        for name, value in instance.labels.items()
        if not _KUBERNETES_OWN.search(name) and name not in present
    }
    return more | found


def stale_labels(present: Mapping[str, str]) -> dict[str, str]:
    """Return the newer labels that differ from the older ones."""
    pairs = (ZONE, REGION, INSTANCE_TYPE)
    return {new: present[old] for old, new in pairs if old in present and present.get(new) != present[old]}


def addresses_of(node: Node, instance: InstanceMetadata) -> tuple[NodeAddress, ...]:
    """Return a node's addresses: those of the cloud and its own hostname, preferred ones first."""
    found = instance.addresses
    if not any(one.type == "Hostname" for one in found):
        found = (*found, *(one for one in node.status.addresses if one.type == "Hostname"))
    return select_provided_ips(node, found)


def select_provided_ips(node: Node, addresses: Sequence[NodeAddress]) -> tuple[NodeAddress, ...]:
    """Select the provided node IP as the only one of its type, followed by all other types.

    Raises `CloudError` for an invalid address, or one that the cloud does not know.
    """
    provided = node.metadata.annotations.get(PROVIDED_IP)
    if provided is None:
        return tuple(addresses)
    chosen: list[NodeAddress] = []
    for text in provided.split(","):
        wanted = parse_ip(text.strip())
        if wanted is None:
            raise CloudError(f'failed to parse node IP "{provided}": could not parse "{text.strip()}"')
        matching = [one for one in addresses if parse_ip(one.address) == wanted]
        if not matching:
            raise CloudError(f"failed to get node address from cloud provider that matches ip: {wanted}")
        chosen += matching
    types = {one.type for one in chosen}
    return (*chosen, *(one for one in addresses if one.type not in types))


def addresses_differ(before: Sequence[NodeAddress], after: Sequence[NodeAddress]) -> bool:
    """Return True if the addresses differ, regardless of order."""
    return set(before) != set(after) or len(before) != len(after)
