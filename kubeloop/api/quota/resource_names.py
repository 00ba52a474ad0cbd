"""Which names of resources stand for devices that nodes or drivers add to what Kubernetes knows itself."""

from __future__ import annotations

from kubeloop.api.meta.name_rules import check_qualified_name

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
REQUESTS = "requests."


def is_extended(name: str) -> bool:
    """As a pod requests it: a domain of its own, or a class of devices by its implicit name."""
    if name.startswith(DEVICE_CLASS):
        return True
    return not _is_native(name) and not name.startswith(REQUESTS) and not check_qualified_name(REQUESTS + name)


def is_extended_in_quota(name: str) -> bool:
    """As a quota limits it: only requests, since such resources can't be overcommitted."""
    return name.startswith(REQUESTS + DEVICE_CLASS) or (name.startswith(REQUESTS) and not _is_native(name))


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name
