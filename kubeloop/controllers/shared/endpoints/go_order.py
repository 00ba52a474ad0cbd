# SPDX-License-Identifier: Apache-2.0
"""Order of ports and subsets as upstream lists them, by a hash of Go's printed form. Pure.

Another order would be equivalent for readers, but every switch between the two programs would rewrite all objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from kubeloop.api.generated import core_v1, discovery_v1

_OFFSET: Final = 0x6C62272E07BB014262B821756295C58D
_PRIME: Final = 0x0000000001000000000000000000013B
_MASK: Final = (1 << 128) - 1


def fnv128a(content: bytes) -> int:
    """Compute the 128-bit FNV-1a hash."""
    value = _OFFSET
    for byte in content:
        value = (value ^ byte) * _PRIME & _MASK
    return value


@lru_cache(maxsize=4096)
def _hash(text: str) -> int:
    return fnv128a(text.encode())


def port_sort_key(port: core_v1.EndpointPort) -> int:
    """Return the sort key of a port in a subset."""
    return _hash("(v1.EndpointPort)" + _core_port(port))


def subset_sort_key(subset: core_v1.EndpointSubset) -> int:
    """Return the sort key of a subset; costly, so call it only if there are several."""
    ready, not_ready = map(_addresses, (subset.addresses, subset.not_ready_addresses))
    ports = _list("v1.EndpointPort", map(_core_port, subset.ports), empty=not subset.ports)
    text = f"(v1.EndpointSubset){{Addresses:{ready} NotReadyAddresses:{not_ready} Ports:{ports}}}"
    return fnv128a(text.encode())


def slice_port_sort_key(port: discovery_v1.EndpointPort) -> int:
    """Return the sort key of a port in an EndpointSlice."""
    name, protocol, app = map(_optional, (port.name, port.protocol, port.app_protocol))
    number = _optional(None if port.port is None else str(port.port))
    fields = f"Name:(*string){name} Protocol:(*v1.Protocol){protocol} Port:(*int32){number} AppProtocol:(*string){app}"
    return _hash(f"(v1.EndpointPort){{{fields}}}")


def _core_port(port: core_v1.EndpointPort) -> str:
    fields = f"Name:(string){port.name} Port:(int32){port.port} Protocol:(v1.Protocol){port.protocol}"
    return f"{{{fields} AppProtocol:(*string){_optional(port.app_protocol)}}}"


def _addresses(addresses: tuple[core_v1.EndpointAddress, ...]) -> str:
    return _list("v1.EndpointAddress", map(_address, addresses), empty=not addresses)


def _address(address: core_v1.EndpointAddress) -> str:
    node, target = _optional(address.node_name), _reference(address.target_ref)
    fields = f"IP:(string){address.ip} Hostname:(string){address.hostname} NodeName:(*string){node}"
    return f"{{{fields} TargetRef:(*v1.ObjectReference){target}}}"


def _reference(target: core_v1.ObjectReference | None) -> str:
    if target is None:
        return "<nil>"
    who = f"Kind:(string){target.kind} Namespace:(string){target.namespace} Name:(string){target.name}"
    version = f"APIVersion:(string){target.api_version} ResourceVersion:(string){target.resource_version}"
    return f"{{{who} UID:(types.UID){target.uid} {version} FieldPath:(string){target.field_path}}}"


def _list(kind: str, items: Iterable[str], *, empty: bool) -> str:
    return f"([]{kind})<nil>" if empty else f"([]{kind})[{' '.join(items)}]"


def _optional(value: str | None) -> str:
    return "<nil>" if value is None else value
