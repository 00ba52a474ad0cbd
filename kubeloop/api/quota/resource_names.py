# SPDX-License-Identifier: Apache-2.0
"""Extended resource names: those of devices that nodes or drivers add."""

from __future__ import annotations

from kubeloop.api.meta.name_rules import check_qualified_name

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
REQUESTS = "requests."


def is_extended_resource(name: str) -> bool:
    """Return True for an extended resource in a pod: with its own domain, or a device class's implicit name."""
    if name.startswith(DEVICE_CLASS):
        return True
    return not _is_native(name) and not name.startswith(REQUESTS) and not check_qualified_name(REQUESTS + name)


def is_extended_quota_resource(name: str) -> bool:
    """Return True for an extended resource in a quota: only requests, since they can't be overcommitted."""
    return name.startswith(REQUESTS + DEVICE_CLASS) or (name.startswith(REQUESTS) and not _is_native(name))


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name
