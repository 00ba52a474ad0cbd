# SPDX-License-Identifier: Apache-2.0
"""IPAddress objects: they record the Service of an address, and arbitrate between servers."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry, ObjectMeta
from kubeloop.api.generated.networking_v1 import IPAddress, IPAddressSpec, ParentReference
from kubeloop.api.meta import object_meta
from kubeloop.apiserver.registry.allocation.service_cidrs import family_of
from kubeloop.apiserver.registry.serializer import encode_stored

_FAMILY: Final = "ipaddress.kubernetes.io/ip-family"
MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
MANAGER: Final = "ipallocator.k8s.io"
_OWNED: Final = msgspec.Raw(
    msgspec.json.encode(
        {
            "f:metadata": {"f:labels": {".": {}, f"f:{_FAMILY}": {}, f"f:{MANAGED_BY}": {}}},
            "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
        }
    )
)


def ip_object(address: str, service: ObjectMeta, uid: str, now: datetime) -> bytes:
    """Return the encoded IPAddress of a Service's address."""
    time = object_meta.time_of(now)
    meta = ObjectMeta(
        name=address,
        uid=uid,
        creation_timestamp=time,
        labels={_FAMILY: family_of(address), MANAGED_BY: MANAGER},
        managed_fields=(
            ManagedFieldsEntry(
                manager="kube-apiserver",
                operation="Update",
                api_version="networking.k8s.io/v1",
                time=time,
                fields_type="FieldsV1",
                fields_v1=_OWNED,
            ),
        ),
    )
    parent = ParentReference(resource="services", namespace=service.namespace, name=service.name)
    return encode_stored(IPAddress(metadata=meta, spec=IPAddressSpec(parent_ref=parent)))


def without_parent(value: bytes, service: ObjectMeta, now: datetime) -> bytes | None:
    """Return what is left of an IPAddress when its Service releases it: None, unless a finalizer holds it."""
    held = codec.decode(value, IPAddress)
    parent = held.spec.parent_ref
    if parent is None or (parent.namespace, parent.name) != (service.namespace, service.name):
        return value
    if not held.metadata.finalizers:
        return None
    if held.metadata.deletion_timestamp is None:
        object_meta.set_deletion_timestamp(held.metadata, now, 0)
    return encode_stored(held)
