# SPDX-License-Identifier: Apache-2.0
"""Reads and checks the flags about pod CIDRs. Pure."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from kubeloop.api.addresses import parse_cidr
from kubeloop.controllers import InvalidControllers
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.controllers.node_ipam.cidr_set import CidrSet, Network

_DEFAULT_BITS: Final = {4: 24, 6: 64}
_MOST_RANGES: Final = 2  # one per family

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NodeCidrConfig:
    """Cluster CIDRs, the mask size of nodes, and the Service CIDRs that no node may have."""

    ranges: tuple[Network, ...]
    node_bits: tuple[int, ...]
    services: tuple[Network, ...]

    def sets(self) -> tuple[CidrSet, ...]:
        """Build the allocators, with the Service CIDRs held."""
        made = tuple(map(_set, self.ranges, self.node_bits))
        for one in made:
            for services in self.services:
                if services.version == one.network.version and services.overlaps(one.network):
                    one.occupy(services)
        return made


def _set(network: Network, bits: int) -> CidrSet:
    try:
        return CidrSet(network, bits)
    except ValueError as error:
        raise InvalidControllers(str(error)) from None


def read_cidr_config(config: ManagerConfig) -> NodeCidrConfig:
    """Read the flags. Raises `UnusableChoice` with upstream's messages."""
    if config.cidr_allocator_type == "CloudAllocator":
        raise InvalidControllers(
            "--cidr-allocator-type is set to 'CloudAllocator' but cloud provider is not configured"
        )
    if config.cidr_allocator_type != "RangeAllocator":
        raise InvalidControllers(f"invalid CIDR allocator type: {config.cidr_allocator_type}")
    ranges = _ranges(config.cluster_cidr)
    bits = tuple(_node_bits(config, one, len(ranges) > 1) for one in ranges)
    if any(one.prefixlen > size or size > one.max_prefixlen for one, size in zip(ranges, bits, strict=True)):
        raise InvalidControllers(
            "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to "
            "--node-cidr-mask-size configured for CIDR family"
        )
    return NodeCidrConfig(ranges, bits, _services(config.service_cluster_ip_range))


def _ranges(text: str) -> tuple[Network, ...]:
    if not text.strip():
        raise InvalidControllers("Controller: Must specify --cluster-cidr if --allocate-node-cidrs is set")
    found = []
    for one in text.strip().split(","):
        parsed = parse_cidr(one)
        if parsed is None:
            raise InvalidControllers(f"invalid CIDR address: {one}")
        found.append(parsed[1])
    if len(found) > 1 and len({one.version for one in found}) == 1:
        raise InvalidControllers(
            f"len of ClusterCIDRs=={len(found)} and they are not configured as dual stack "
            "(at least one from each IPFamily"
        )
    if len(found) > _MOST_RANGES:
        raise InvalidControllers(f"length of clusterCIDRs is:{len(found)} more than max allowed of {_MOST_RANGES}")
    return tuple(found)


def _node_bits(config: ManagerConfig, network: Network, dual: bool) -> int:
    any_family, v4, v6 = config.node_cidr_mask_size, config.node_cidr_mask_size_ipv4, config.node_cidr_mask_size_ipv6
    _refuse_contradictions(config, network, dual)
    return any_family or (v4 if network.version == 4 else v6) or _DEFAULT_BITS[network.version]


def _refuse_contradictions(config: ManagerConfig, network: Network, dual: bool) -> None:
    any_family, v4, v6 = config.node_cidr_mask_size, config.node_cidr_mask_size_ipv4, config.node_cidr_mask_size_ipv6
    if dual:
        if any_family:
            raise InvalidControllers("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
        return
    if any_family and (v4 or v6):
        raise InvalidControllers(
            "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if "
            "--node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily specific flags"
        )
    if v4 and network.version == 6:
        raise InvalidControllers("usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster")
    if v6 and network.version == 4:
        raise InvalidControllers("usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster")


def _services(text: str) -> tuple[Network, ...]:
    """Parse the Service CIDRs; invalid ones are skipped as in upstream, since the API server allocates Service IPs."""
    found = []
    for one in filter(None, text.strip().split(",")):
        parsed = parse_cidr(one)
        if parsed is None:
            log.warning("--service-cluster-ip-range: %s is not a CIDR", one)
        else:
            found.append(parsed[1])
    if len(found) > 1 and len({one.version for one in found}) == 1:
        raise InvalidControllers("serviceCIDR and secondaryServiceCIDR are not dualstack (from different IPfamiles)")
    return tuple(found)
