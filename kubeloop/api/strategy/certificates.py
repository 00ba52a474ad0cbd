# SPDX-License-Identifier: Apache-2.0
"""Strategy of CertificateSigningRequests: approval and issuance are separate subresources.

The server sets the requestor from the authenticated user, after `prepare_create` has cleared the client's claims.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestCondition
from kubeloop.api.scalars import wire
from kubeloop.api.strategy.base import Strategy


def _refine(new: CertificateSigningRequest, old: CertificateSigningRequest | None) -> None:
    if old is not None:
        force_setattr(new, "spec", old.spec)
        return
    force_setattr(new, "spec", replace(new.spec, username="", uid="", groups=(), extra={}))


def _name_author(
    new: CertificateSigningRequest,
    name: str,
    uid: str,
    groups: tuple[str, ...],
    extra: Mapping[str, tuple[str, ...]],
) -> None:
    force_setattr(new, "spec", replace(new.spec, username=name, uid=uid, groups=groups, extra=extra))


def _refine_status(new: CertificateSigningRequest, old: CertificateSigningRequest) -> None:
    """Restore approval conditions, unless one was added or removed, which validation rejects."""
    conditions = list(new.status.conditions)
    for kind in ("Approved", "Denied"):
        before = [condition for condition in old.status.conditions if condition.type == kind]
        places = [index for index, condition in enumerate(conditions) if condition.type == kind]
        if len(before) == len(places):
            for index, condition in zip(places, before, strict=True):
                conditions[index] = condition
    force_setattr(new.status, "conditions", tuple(conditions))


def _approve(new: CertificateSigningRequest, old: CertificateSigningRequest, features: Features) -> None:
    force_setattr(new, "spec", old.spec)
    force_setattr(new, "status", replace(old.status, conditions=new.status.conditions))
    force_setattr(new.metadata, "generation", old.metadata.generation)


def _stamp(new: CertificateSigningRequest, old: CertificateSigningRequest | None, now: str) -> None:
    if old is None or new.status is old.status or not new.status.conditions:
        return
    before = {
        (condition.type, condition.status): condition.last_transition_time
        for condition in reversed(old.status.conditions)
        if condition.last_transition_time is not None
    }
    stamped = tuple(_stamped(condition, before, wire.Time(now)) for condition in new.status.conditions)
    force_setattr(new.status, "conditions", stamped)


def _stamped(
    condition: CertificateSigningRequestCondition, before: dict[tuple[str, str], wire.Time], now: wire.Time
) -> CertificateSigningRequestCondition:
    return replace(
        condition,
        last_update_time=condition.last_update_time or now,
        last_transition_time=condition.last_transition_time or before.get((condition.type, condition.status), now),
    )


SIGNING_REQUEST = Strategy(
    has_status=True,
    reset_fields={
        "": (("spec",), ("status",)),
        "status": (("spec",), ("status", "conditions")),
        "approval": (("spec",), ("status", "certificate")),
    },
    refine=_refine,
    refine_status=_refine_status,
    subresource_updates={"approval": _approve},
    set_timestamps=_stamp,
    set_creator=_name_author,
)
