"""From what a cloud says of an instance to what a node says of itself: labels and addresses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated.core_v1 import Node, NodeAddress
from kubeloop.cloud.provider import CloudError, InstanceMetadata

PROVIDED_IP: Final = "alpha.kubernetes.io/provided-node-ip"
# Each old label with the one that took its place. The old one is the truth, as it is upstream.
ZONE: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION: Final = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
INSTANCE_TYPE: Final = ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type")
_KUBERNETES_OWN: Final = re.compile(r"(^|\.)(kubernetes|k8s)\.io/")


def labels_of(instance: InstanceMetadata, present: Mapping[str, str]) -> dict[str, str]:
    """The labels that a node gets; those that a provider adds neither replace any nor take Kubernetes' own names."""
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
    """The newer labels that do not say what the older ones say."""
    pairs = (ZONE, REGION, INSTANCE_TYPE)
    return {new: present[old] for old, new in pairs if old in present and present.get(new) != present[old]}


def addresses_of(node: Node, instance: InstanceMetadata) -> tuple[NodeAddress, ...]:
    """What a node's addresses shall be: the cloud's, the host name that the node knows, those first that it prefers."""
    found = instance.addresses
    if not any(one.type == "Hostname" for one in found):
        found = (*found, *(one for one in node.status.addresses if one.type == "Hostname"))
    return preferred(node, found)


def preferred(node: Node, addresses: Sequence[NodeAddress]) -> tuple[NodeAddress, ...]:
    """With an address that the node was started with: that one alone of its type, then all of other types.

    Raises `CloudError` for one that makes no sense, or that the cloud does not know of.
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


def differ(before: Sequence[NodeAddress], after: Sequence[NodeAddress]) -> bool:
    return set(before) != set(after) or len(before) != len(after)
