# SPDX-License-Identifier: Apache-2.0
"""Source ranges of a Service's load balancer: from its spec, else its annotation, else any."""

from __future__ import annotations

from ipaddress import ip_network

from kubeloop.api.generated.core_v1 import Service
from kubeloop.cloud.provider import CloudError

ANNOTATION = "service.beta.kubernetes.io/load-balancer-source-ranges"
EVERYWHERE = "0.0.0.0/0"


def source_ranges(service: Service) -> tuple[str, ...]:
    """Return the CIDRs; raises `CloudError` for an invalid one."""
    ranges = service.spec.load_balancer_source_ranges
    if ranges:
        if bad := _first_bad(ranges):
            said = " ".join(ranges)
            raise CloudError(
                f"service.Spec.LoadBalancerSourceRanges: [{said}] is not valid. Expecting a list of IP ranges. "
                f"For example, 10.0.0.0/24. Error msg: invalid CIDR address: {bad}"
            )
        return tuple(one.strip() for one in ranges)
    said = service.metadata.annotations.get(ANNOTATION, "").strip() or EVERYWHERE
    found = tuple(one.strip() for one in said.split(","))
    if _first_bad(found):
        raise CloudError(
            f"{ANNOTATION}: {said} is not valid. Expecting a comma-separated list of source IP ranges. "
            "For example, 10.0.0.0/24,192.168.2.0/24"
        )
    return found


def _first_bad(ranges: tuple[str, ...]) -> str:
    for one in ranges:
        try:
            ip_network(one.strip(), strict=False)
        except ValueError:
            return one
    return ""
