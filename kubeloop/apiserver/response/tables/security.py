# SPDX-License-Identifier: Apache-2.0
"""Printers of role bindings, and of certificate requests and trust bundles."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.api.scalars.times import human_duration
from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, column, wide_column
from kubeloop.apiserver.response.tables.text import NONE, format_age, format_labels

if TYPE_CHECKING:
    from kubeloop.api.generated.certificates_v1 import (
        CertificateSigningRequest,
        ClusterTrustBundle,
        PodCertificateRequest,
    )
    from kubeloop.api.generated.rbac_v1 import ClusterRoleBinding, RoleBinding

_POD_REQUEST_STATES = ("Issued", "Denied", "Failed")


def _binding_cells(binding: RoleBinding | ClusterRoleBinding, now: datetime) -> Cells:
    users = [subject.name for subject in binding.subjects if subject.kind == "User"]
    groups = [subject.name for subject in binding.subjects if subject.kind == "Group"]
    accounts = [f"{found.namespace}/{found.name}" for found in binding.subjects if found.kind == "ServiceAccount"]
    return [
        binding.metadata.name,
        f"{binding.role_ref.kind}/{binding.role_ref.name}",
        format_age(binding, now),
        ", ".join(users),
        ", ".join(groups),
        ", ".join(accounts),
    ]


def _signing_request_status(request: CertificateSigningRequest) -> str:
    types = {condition.type for condition in request.status.conditions}
    status = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        status += ",Failed"
    return f"{status},Issued" if request.status.certificate else status


def _signing_request_cells(request: CertificateSigningRequest, now: datetime) -> Cells:
    lifetime = request.spec.expiration_seconds
    return [
        request.metadata.name,
        format_age(request, now),
        request.spec.signer_name or NONE,
        request.spec.username,
        NONE if lifetime is None else human_duration(lifetime),
        _signing_request_status(request),
    ]


def _trust_bundle_cells(bundle: ClusterTrustBundle, _now: datetime) -> Cells:
    return [bundle.metadata.name, bundle.spec.signer_name or NONE]


def _pod_request_cells(request: PodCertificateRequest, _now: datetime) -> Cells:
    states = [found.type for found in request.status.conditions if found.type in _POD_REQUEST_STATES]
    return [
        request.metadata.name,
        request.spec.pod_name,
        request.spec.service_account_name,
        request.spec.node_name,
        request.spec.signer_name,
        states[-1] if states else "Pending",
        format_labels(request.spec.unverified_user_annotations),
    ]


_SIGNER = column("SignerName", "Signer of the certificate.")

ROLE_BINDING = Printer(
    columns=(
        NAME,
        column("Role", "Role of the binding."),
        AGE,
        wide_column("Users", "Users of the binding."),
        wide_column("Groups", "Groups of the binding."),
        wide_column("ServiceAccounts", "Service accounts of the binding."),
    ),
    cells=_binding_cells,
)
CERTIFICATE_SIGNING_REQUEST = Printer(
    columns=(
        NAME,
        AGE,
        _SIGNER,
        column("Requestor", "User that made the request."),
        column("RequestedDuration", "Requested duration of validity."),
        column("Condition", "State of approval and issuance."),
    ),
    cells=_signing_request_cells,
)
CLUSTER_TRUST_BUNDLE = Printer(columns=(NAME, column("SignerName", "Signer of the bundle.")), cells=_trust_bundle_cells)
POD_CERTIFICATE_REQUEST = Printer(
    columns=(
        NAME,
        column("PodName", "Name of the pod."),
        column("ServiceAccountName", "Service account of the pod."),
        column("NodeName", "Node of the pod."),
        _SIGNER,
        column("State", "State: pending, issued, denied or failed."),
        column("UnverifiedUserAnnotations", "User annotations, not verified."),
    ),
    cells=_pod_request_cells,
)
