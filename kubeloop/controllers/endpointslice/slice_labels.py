"""The labels of a service's slices: the service's own, and those by which slices are found. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeloop.api.generated.core_v1 import Service
from kubeloop.controllers.shared.endpoints.offers import has_cluster_ip
from kubeloop.controllers.shared.endpoints.slices import MANAGED_BY, SERVICE_NAME

MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
_RESERVED: Final = frozenset({MANAGED_BY, SERVICE_NAME, HEADLESS})


def labels_of(service: Service) -> dict[str, str]:
    """What a slice of the service is labelled with; the service has no say in the reserved ones."""
    labels = _free(service.metadata.labels)
    if not has_cluster_ip(service):
        labels[HEADLESS] = ""
    labels[SERVICE_NAME] = service.metadata.name
    labels[MANAGED_BY] = MANAGER
    return labels


def are_current(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a slice has what comes from its service. The reserved labels alone are no reason to write."""
    return _free(labels) == _free(wanted)


def _free(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _RESERVED}
