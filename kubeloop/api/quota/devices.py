"""What claims of devices take: themselves, and devices by class, also under the names of extended resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from kubeloop.api.generated.resource_v1 import DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from kubeloop.api.quantity import Quantity
from kubeloop.api.quota.amounts import ONE, ZERO, Amounts, largest, plus
from kubeloop.api.quota.meter import Meter
from kubeloop.api.quota.resource_names import DEVICE_CLASS, REQUESTS, is_extended_in_quota

_BY_CLASS = ".deviceclass.resource.k8s.io/devices"
# A claim of all devices can't get more than a claim can hold.
_MOST_DEVICES = 32


class DeviceClaimMeter(Meter):
    """Needs to know each class's extended resource name ("" if it has none), and what of it a claim's pod pays for."""

    def __init__(
        self, class_names: Callable[[], Mapping[str, str]], paid_by_pod: Callable[[ResourceClaim, datetime], Amounts]
    ) -> None:
        super().__init__("resourceclaims.resource.k8s.io")
        self._class_names = class_names
        self._paid_by_pod = paid_by_pod

    def concerns(self, operation: str, subresource: str, new: object, old: object) -> bool:
        return operation in ("CREATE", "UPDATE") and not subresource

    def measured(self, names: Iterable[str]) -> list[str]:
        return sorted(n for n in names if n in self.names or n.endswith(_BY_CLASS) or self._is_extended_by_class(n))

    def _is_extended_by_class(self, name: str) -> bool:
        if not is_extended_in_quota(name):
            return False
        resource = name.removeprefix(REQUESTS)
        classes = self._class_names()
        return resource.removeprefix(DEVICE_CLASS) in classes or resource in classes.values()

    def usage(self, obj: ResourceClaim, now: datetime) -> Amounts:
        by_class: Amounts = {}
        for request in obj.spec.devices.requests or ():
            by_class = plus(by_class, _devices(request))
        used = {self.names[0]: ONE}
        used.update((name + _BY_CLASS, amount) for name, amount in by_class.items())
        paid = self._paid_by_pod(obj, now)
        classes = self._class_names()
        for name, amount in by_class.items():
            for alias in filter(None, (DEVICE_CLASS + name, classes.get(name))):
                rest = amount - paid.get(REQUESTS + alias, ZERO)
                if rest > ZERO:
                    used[REQUESTS + alias] = rest
        return used


def _devices(request: DeviceRequest) -> Amounts:
    """Devices by class; of several alternatives, the worst for each class."""
    if request.first_available:
        return largest(*({each.device_class_name: _count(each)} for each in request.first_available))
    return {} if request.exactly is None else {request.exactly.device_class_name: _count(request.exactly)}


def _count(request: ExactDeviceRequest | DeviceSubRequest) -> Quantity:
    if request.allocation_mode == "All":
        return Quantity.of(_MOST_DEVICES)
    return Quantity.of(request.count) if request.allocation_mode == "ExactCount" else ZERO
