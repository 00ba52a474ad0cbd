"""What services take: themselves, load balancers and node ports."""

from __future__ import annotations

from datetime import datetime

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.quota.amounts import ONE, ZERO, Amounts
from kubeloop.api.quota.meter import Meter
from kubeloop.api.scalars.quantity import Quantity

_LOAD_BALANCERS = "services.loadbalancers"
_NODE_PORTS = "services.nodeports"


class ServiceMeter(Meter):
    def __init__(self) -> None:
        super().__init__("services", "services", _LOAD_BALANCERS, _NODE_PORTS)

    def concerns(self, operation: str, subresource: str, new: object, old: object) -> bool:
        """An update may change the type."""
        return operation in ("CREATE", "UPDATE") and not subresource

    def usage(self, obj: Service, now: datetime) -> Amounts:
        spec = obj.spec
        balanced = spec.type == "LoadBalancer"
        ports = 0
        if balanced and spec.allocate_load_balancer_node_ports is False:
            ports = sum(1 for port in spec.ports if port.node_port)
        elif balanced or spec.type == "NodePort":
            # Not given yet on a create, so it is the intent that counts.
            ports = len(spec.ports)
        return {
            **super().usage(obj, now),
            _LOAD_BALANCERS: ONE if balanced else ZERO,
            _NODE_PORTS: Quantity.of(ports),
        }
