# SPDX-License-Identifier: Apache-2.0
"""Defaults of roles, role bindings, tokens, pod certificates and priority classes."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.defaults.empty_lists import null_if_empty
from kubeloop.api.generated.authentication_v1 import TokenRequest
from kubeloop.api.generated.certificates_v1 import PodCertificateRequest
from kubeloop.api.generated.rbac_v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubeloop.api.generated.scheduling_v1 import PriorityClass

_RBAC_GROUP = "rbac.authorization.k8s.io"
_HOUR_SECONDS = 3600
_DAY_SECONDS = 86400


def default_role_binding(binding: RoleBinding | ClusterRoleBinding) -> None:
    """Apply the defaults of a RoleBinding or ClusterRoleBinding."""
    if not binding.role_ref.api_group:
        force_setattr(binding.role_ref, "api_group", _RBAC_GROUP)
    for subject in binding.subjects:
        if not subject.api_group and subject.kind in ("User", "Group"):
            force_setattr(subject, "api_group", _RBAC_GROUP)


def default_role(role: Role | ClusterRole) -> None:
    """Normalize the empty rules of a Role or ClusterRole."""
    null_if_empty(role, "rules")


def default_token_request(request: TokenRequest) -> None:
    """Apply the defaults of a TokenRequest."""
    if request.spec.expiration_seconds is None:
        force_setattr(request.spec, "expiration_seconds", _HOUR_SECONDS)


def default_pod_certificate_request(request: PodCertificateRequest) -> None:
    """Apply the defaults of a PodCertificateRequest."""
    if request.spec.max_expiration_seconds is None:
        force_setattr(request.spec, "max_expiration_seconds", _DAY_SECONDS)


def default_priority_class(priority_class: PriorityClass) -> None:
    """Apply the defaults of a PriorityClass."""
    if priority_class.preemption_policy is None:
        force_setattr(priority_class, "preemption_policy", "PreemptLowerPriority")
