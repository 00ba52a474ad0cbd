# SPDX-License-Identifier: Apache-2.0
"""Starts to serve custom resources when the first CRD appears; until then, nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kubeloop.api.kinds import Resource
from kubeloop.apiserver.nonresource.openapi.schemas import DefinitionsSource
from kubeloop.apiserver.registry.lazy_subscription import LazySubscription
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.metrics import MetricRegistry

if TYPE_CHECKING:
    from kubeloop.apiserver.apiextensions.controller import CRDController

# Publishes the custom resources to the server, in the order of discovery.
Publish = Callable[[Sequence[Resource], DefinitionsSource], None]

_PREFIX = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


class LazyCRDs(LazySubscription["CRDController"]):
    """Subscription to CRDs."""

    def __init__(self, registry: StorageRegistry, clock: Clock, publish: Publish, metrics: MetricRegistry) -> None:
        super().__init__(registry.store, (_PREFIX,), self._make_controller)
        self._registry = registry
        self._clock = clock
        self._publish = publish
        self._metrics = metrics

    def _make_controller(self) -> CRDController:
        from kubeloop.apiserver.apiextensions.controller import CRDController

        return CRDController(self._registry, self._clock, self._publish, self._metrics)
