"""Usage of services: count, load balancers and node ports."""

from __future__ import annotations

from datetime import datetime

from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.quota.amounts import ONE, ZERO, Amounts
from kubeloop.api.quota.meter import QuotaEvaluator
from kubeloop.api.scalars.quantity import Quantity

_LOAD_BALANCERS = "services.loadbalancers"
_NODE_PORTS = "services.nodeports"


class ServiceEvaluator(QuotaEvaluator):
    """Meter of services."""

    def __init__(self) -> None:
        super().__init__("services", "services", _LOAD_BALANCERS, _NODE_PORTS)

    def concerns(self, operation: str, subresource: str, new: object, old: object) -> bool:
        """Return True for creates and updates, which may change the type."""
        return operation in ("CREATE", "UPDATE") and not subresource

    def usage(self, obj: Service, now: datetime) -> Amounts:
        """Return a service's usage: count, load balancers and node ports."""
        spec = obj.spec
        balanced = spec.type == "LoadBalancer"
        ports = 0
        if balanced and spec.allocate_load_balancer_node_ports is False:
            ports = sum(1 for port in spec.ports if port.node_port)
        elif balanced or spec.type == "NodePort":
            # Ports are not allocated yet on create, so the intent counts.
            ports = len(spec.ports)
        return {
            **super().usage(obj, now),
            _LOAD_BALANCERS: ONE if balanced else ZERO,
            _NODE_PORTS: Quantity.of(ports),
        }
