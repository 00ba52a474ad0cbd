# SPDX-License-Identifier: Apache-2.0
"""Post-start hooks: the steps of a start, each with a health check under upstream's name until it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from kubeloop.apiserver.nonresource.health import Check

_PREFIX: Final = "poststarthook/"
NAMESPACES: Final = f"{_PREFIX}start-system-namespaces-controller"
AUTHENTICATION_INFO: Final = f"{_PREFIX}start-cluster-authentication-info-controller"
IDENTITY_LEASE: Final = f"{_PREFIX}start-kube-apiserver-identity-lease-controller"
IDENTITY_LEASE_COLLECTOR: Final = f"{_PREFIX}start-kube-apiserver-identity-lease-garbage-collector"
TOKEN_TRACKING: Final = f"{_PREFIX}start-legacy-token-tracking-controller"
SERVICE_REPAIR: Final = f"{_PREFIX}start-service-ip-repair-controllers"
ROLES: Final = f"{_PREFIX}rbac/bootstrap-roles"
PRIORITY_CLASSES: Final = f"{_PREFIX}scheduling/bootstrap-system-priority-classes"
FLOW_CONTROL_CONFIG: Final = f"{_PREFIX}priority-and-fairness-config-producer"
KUBERNETES_SERVICE: Final = f"{_PREFIX}bootstrap-controller"
SERVICE_CIDR: Final = f"{_PREFIX}start-kubernetes-service-cidr-controller"
AUTOREGISTRATION: Final = f"{_PREFIX}kube-apiserver-autoregistration"
AUTOREGISTRATION_COMPLETE: Final = "autoregister-completion"
# Parts that work from the first request on: they read the store, or load when they are needed.
_FLOW_CONTROL: Final = (f"{_PREFIX}priority-and-fairness-config-consumer", f"{_PREFIX}priority-and-fairness-filter")
_IN_FLIGHT: Final = (f"{_PREFIX}max-in-flight-filter",)
_BEFORE: Final = (f"{_PREFIX}start-apiserver-admission-initializer", f"{_PREFIX}generic-apiserver-start-informers")
_EXTENSIONS: Final = tuple(
    _PREFIX + name
    for name in (
        "storage-object-count-tracker-hook",
        "start-apiextensions-informers",
        "start-apiextensions-controllers",
        "crd-informer-synced",
    )
)
_AGGREGATION: Final = tuple(
    _PREFIX + name
    for name in (
        "aggregator-reload-proxy-client-cert",
        "start-kube-aggregator-informers",
        "apiservice-status-local-available-controller",
        "apiservice-status-remote-available-controller",
        "apiservice-registration-controller",
        "apiservice-discovery-controller",
    )
)
_DOCUMENTS: Final = (f"{_PREFIX}apiservice-openapi-controller", f"{_PREFIX}apiservice-openapiv3-controller")


def hook_names(flowcontrol: bool) -> tuple[str, ...]:
    """Return the names of the checks in upstream's order."""
    return (
        *_BEFORE,
        *(_FLOW_CONTROL if flowcontrol else _IN_FLIGHT),
        *_EXTENSIONS,
        NAMESPACES,
        AUTHENTICATION_INFO,
        IDENTITY_LEASE,
        IDENTITY_LEASE_COLLECTOR,
        f"{_PREFIX}storage-readiness",
        TOKEN_TRACKING,
        SERVICE_REPAIR,
        ROLES,
        PRIORITY_CLASSES,
        FLOW_CONTROL_CONFIG,
        KUBERNETES_SERVICE,
        SERVICE_CIDR,
        *_AGGREGATION,
        AUTOREGISTRATION,
        AUTOREGISTRATION_COMPLETE,
        *_DOCUMENTS,
    )


class PostStartHooks:
    """Unfinished steps of a start."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._unfinished = set(self._names)

    def finish(self, *names: str) -> None:
        """Mark steps as done."""
        self._unfinished.difference_update(names)

    def finish_all(self) -> None:
        """Mark the remaining steps as done."""
        self._unfinished.clear()

    def checks(self) -> Mapping[str, Check]:
        """Return a health check for each step."""
        return {name: partial(self._check, name) for name in self._names}

    def _check(self, name: str) -> str:
        return "not finished" if name in self._unfinished else ""
