# SPDX-License-Identifier: Apache-2.0
"""Labels of a Service's slices: the Service's own and those that identify slices. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kubeloop.api.generated.core_v1 import Service
from kubeloop.controllers.shared.endpoints.pod_endpoints import has_cluster_ip
from kubeloop.controllers.shared.endpoints.slices import MANAGED_BY, SERVICE_NAME

MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
_RESERVED: Final = frozenset({MANAGED_BY, SERVICE_NAME, HEADLESS})


def labels_of(service: Service) -> dict[str, str]:
    """Return the labels of a Service's slices; reserved ones are not taken from the Service."""
    labels = _free(service.metadata.labels)
    if not has_cluster_ip(service):
        labels[HEADLESS] = ""
    labels[SERVICE_NAME] = service.metadata.name
    labels[MANAGED_BY] = MANAGER
    return labels


def are_current(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return True if a slice has the Service's labels; reserved labels alone are no reason to write."""
    return _free(labels) == _free(wanted)


def _free(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _RESERVED}
