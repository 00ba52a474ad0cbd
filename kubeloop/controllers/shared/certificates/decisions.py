"""What has been decided about a certificate signing request, as its conditions tell."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest


def is_decided(request: CertificateSigningRequest) -> bool:
    return bool(_types(request) & {"Approved", "Denied"})


def is_approved(request: CertificateSigningRequest) -> bool:
    """Whether somebody has approved it and nobody denied it; the status of these conditions says nothing."""
    types = _types(request)
    return "Approved" in types and "Denied" not in types


def has_failed(request: CertificateSigningRequest) -> bool:
    return any(one.type == "Failed" and one.status in ("", "True") for one in request.status.conditions)


def with_condition(request: CertificateSigningRequest, **condition: str) -> list[Any]:
    """All conditions and one more, as they are written."""
    return [*map(codec.to_plain, request.status.conditions), condition]


def this_very(request: CertificateSigningRequest) -> dict[str, str]:
    """What a write demands so that it is about the request that was judged, and no other state of it."""
    return {"uid": request.metadata.uid, "resourceVersion": request.metadata.resource_version}


def _types(request: CertificateSigningRequest) -> set[str]:
    return {one.type for one in request.status.conditions}
