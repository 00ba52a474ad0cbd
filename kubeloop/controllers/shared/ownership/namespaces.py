# SPDX-License-Identifier: Apache-2.0
"""Namespace checks for controllers that create objects in every namespace."""

from __future__ import annotations

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Namespace


def is_active(namespace: Namespace | None) -> bool:
    """Return True if the namespace exists and is Active."""
    return namespace is not None and namespace.status.phase == "Active"


def is_terminating(error: ApiError) -> bool:
    """Return True if the server refused because the namespace is being deleted, so that a retry is useless."""
    return error.is_namespace_terminating
