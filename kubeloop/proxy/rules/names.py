# SPDX-License-Identifier: Apache-2.0
"""Names in the table: those of upstream's table kube-proxy, and those of the shared chains and endpoint maps."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from typing import Final

from kubeloop.proxy.endpoint import EndpointInfo
from kubeloop.proxy.service_port import ServicePortName

TABLE: Final = "kube-proxy"

FILTER_PREROUTING_PRE_DNAT: Final = "filter-prerouting-pre-dnat"
FILTER_OUTPUT_PRE_DNAT: Final = "filter-output-pre-dnat"
FILTER_INPUT: Final = "filter-input"
FILTER_FORWARD: Final = "filter-forward"
FILTER_OUTPUT: Final = "filter-output"
NAT_PREROUTING: Final = "nat-prerouting"
NAT_OUTPUT: Final = "nat-output"
NAT_POSTROUTING: Final = "nat-postrouting"

SERVICES: Final = "services"
SERVICE_ENDPOINTS_CHECK: Final = "service-endpoints-check"
NODEPORT_ENDPOINTS_CHECK: Final = "nodeport-endpoints-check"
CLUSTER_IPS_CHECK: Final = "cluster-ips-check"
FIREWALL_CHECK: Final = "firewall-check"
MASQUERADING: Final = "masquerading"
REJECT: Final = "reject-chain"

SERVICE_IPS: Final = "service-ips"
SERVICE_NODEPORTS: Final = "service-nodeports"
NODEPORT_IPS: Final = "nodeport-ips"
CLUSTER_IPS: Final = "cluster-ips"
NO_ENDPOINT_SERVICES: Final = "no-endpoint-services"
NO_ENDPOINT_NODEPORTS: Final = "no-endpoint-nodeports"
FIREWALL_IPS: Final = "firewall-ips"
HAIRPIN_CONNECTIONS: Final = "hairpin-connections"

# Maps that upstream does not have: endpoints by service IP or node port and a number, one map for each protocol, since
# nft checks that the port in a map's value is of the protocol that a rule matches.
SERVICE_ENDPOINTS: Final = "service-endpoints"
SERVICE_LOCAL_ENDPOINTS: Final = "service-local-endpoints"
NODEPORT_ENDPOINTS: Final = "nodeport-endpoints"
NODEPORT_LOCAL_ENDPOINTS: Final = "nodeport-local-endpoints"

SETS: Final = (CLUSTER_IPS, HAIRPIN_CONNECTIONS, NODEPORT_IPS)
VERDICT_MAPS: Final = (SERVICE_IPS, NO_ENDPOINT_SERVICES, FIREWALL_IPS, SERVICE_NODEPORTS, NO_ENDPOINT_NODEPORTS)
ENDPOINT_MAPS: Final = (
    SERVICE_ENDPOINTS,
    SERVICE_LOCAL_ENDPOINTS,
    NODEPORT_ENDPOINTS,
    NODEPORT_LOCAL_ENDPOINTS,
)
NODEPORT_KEYED: Final = frozenset((SERVICE_NODEPORTS, NO_ENDPOINT_NODEPORTS))
PROTOCOLS: Final = ("tcp", "udp", "sctp")

_LONGEST_BASE: Final = 240  # 256 of the kernel less the longest prefix


def endpoint_map(kind: str, protocol: str) -> str:
    """Return the name of a protocol's map of endpoints."""
    return f"{kind}-{protocol}"


def port_chain_base(name: ServicePortName) -> str:
    """Return the part that the names of a port's chains share, as upstream's: `HASH-namespace/name/protocol/port`."""
    return _hash_and_truncate(_port_text(name))


def endpoint_chain_base(name: ServicePortName, endpoint: EndpointInfo) -> str:
    """Return the part that the names of an endpoint's chain and affinity set share."""
    address = endpoint.ip.replace(":", ".")
    return _hash_and_truncate(f"{_port_text(name)}__{address}/{endpoint.port}")


def _port_text(name: ServicePortName) -> str:
    (namespace, service), port, protocol = name
    return f"{namespace}/{service}/{protocol.lower()}/{port}"


def _hash_and_truncate(text: str) -> str:
    """Return a name with its hash before it, so that cut names stay unique."""
    found = f"{b32encode(hashlib.sha256(text.encode()).digest())[:8].decode()}-{text}"
    return found if len(found) <= _LONGEST_BASE else found[: _LONGEST_BASE - 3] + "..."
