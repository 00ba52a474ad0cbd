"""Usage of simulated containers: as in the script, else half of the requests. Pure."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Container
from kubeloop.api.scalars.quantity import Quantity, parse_quantity
from kubeloop.kubelet.runtime import ContainerUsage
from kubeloop.kubelet.simulated.script import Script

# Usage of a container without requests.
_DEFAULT_CPU = Quantity.of_milli(1)
_DEFAULT_MEMORY = Quantity.of(16 * 2**20)


def simulated_usage(container: Container, script: Script | None) -> ContainerUsage:
    """Return the usage of a container."""
    cpu, memory = _used("cpu", container, script), _used("memory", container, script)
    storage = script.quantity("storage") if script is not None else None
    written = storage.value() if storage is not None else 0
    return ContainerUsage((cpu or _DEFAULT_CPU).nanos, (memory or _DEFAULT_MEMORY).value(), written)


def _used(name: str, container: Container, script: Script | None) -> Quantity | None:
    said = script.quantity(name) if script is not None else None
    if said is not None:
        return said
    requested = container.resources.requests.get(name)
    return Quantity(parse_quantity(requested).nanos // 2) if requested else None
