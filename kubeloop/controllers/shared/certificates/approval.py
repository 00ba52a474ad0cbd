# SPDX-License-Identifier: Apache-2.0
"""Reads the approval state of a certificate signing request from its conditions."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest


def is_decided(request: CertificateSigningRequest) -> bool:
    """Return True if the request is approved or denied."""
    return bool(_types(request) & {"Approved", "Denied"})


def is_approved(request: CertificateSigningRequest) -> bool:
    """Return True if the request has the condition Approved and not Denied, whatever their status."""
    types = _types(request)
    return "Approved" in types and "Denied" not in types


def has_failed(request: CertificateSigningRequest) -> bool:
    """Return True if the request has the condition Failed."""
    return any(one.type == "Failed" and one.status in ("", "True") for one in request.status.conditions)


def with_condition(request: CertificateSigningRequest, **condition: str) -> list[Any]:
    """Return the plain form of all conditions and one more."""
    return [*map(codec.to_plain, request.status.conditions), condition]


def preconditions_of(request: CertificateSigningRequest) -> dict[str, str]:
    """Return the uid and resourceVersion with which a write applies only to the evaluated state of the request."""
    return {"uid": request.metadata.uid, "resourceVersion": request.metadata.resource_version}


def _types(request: CertificateSigningRequest) -> set[str]:
    return {one.type for one in request.status.conditions}
