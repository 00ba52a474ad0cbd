# SPDX-License-Identifier: Apache-2.0
"""Strategy of ResourcePoolStatusRequests: only the status subresource sets the status."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest
from kubeloop.api.strategy.base import RESETS_METADATA, STATUS_METADATA, Strategy

_GATE = "DRAPartitionableDevicesType"


def _drop_disabled(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest | None, features: Features) -> None:
    used = old is not None and old.spec.default_partition_type_attribute is not None
    if not used and not features.is_enabled(_GATE):
        force_setattr(new.spec, "default_partition_type_attribute", None)


def _refine(new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest | None) -> None:
    force_setattr(new, "status", None if old is None else old.status)


POOL_STATUS_REQUEST = Strategy(
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    allow_unconditional_update=False,
    drop_disabled=_drop_disabled,
    refine=_refine,
)
