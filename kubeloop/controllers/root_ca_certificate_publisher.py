# SPDX-License-Identifier: Apache-2.0
"""Publishes the config map `kube-root-ca.crt` in every namespace, by which pods verify the API server.

Watches: namespaces; config maps of that name, for their change and deletion.
Owns: nothing; the config maps belong to the namespace.
Writes: creates and updates config maps.
Wakes itself: never.
Differs from upstream: caches only the config maps of that name, and ignores namespaces that are being deleted.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.errors import Forbidden
from kubeloop.api.generated.core_v1 import ConfigMap, Namespace
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.ownership.namespaces import is_active, is_terminating
from kubeloop.controllers.shared.sync_metrics import with_sync_metrics
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME = "root-ca-certificate-publisher-controller"
SUBSYSTEM = "root_ca_cert_publisher"  # prefix of metrics
QUEUE = "root_ca_cert_publisher"  # upstream's queue name, as dashboards know it
CONFIG_MAP = "kube-root-ca.crt"
WORKERS = 1  # as upstream
DESCRIBED_BY = "kubernetes.io/description"
# Upstream's text, so that the object is the same in all clusters.
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    namespaces = context.informers.for_resource(resource_of_class(Namespace))
    config_maps = context.informers.for_resource(resource_of_class(ConfigMap), fields=f"metadata.name={CONFIG_MAP}")
    reconciler = Reconciler(context.client, namespaces, config_maps, context.root_ca)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME,
        with_sync_metrics(reconciler.reconcile, context, SUBSYSTEM),
        context.clock,
        workers=WORKERS,
        queue=queue,
        telemetry=context.telemetry,
    )
    controller.watches(
        namespaces, lambda namespace: (namespace.metadata.name,), _is_active, resync=context.resync_period()
    )
    controller.watches(config_maps, lambda config_map: (config_map.metadata.namespace,), _was_touched)
    return controller


class Reconciler:
    """Publishes the config map by namespace."""

    def __init__(self, client: Client, namespaces: Informer, config_maps: Informer, root_ca: str) -> None:
        self._client = client
        self._namespaces = namespaces
        self._config_maps = config_maps
        self._root_ca = root_ca

    async def reconcile(self, key: str) -> None:
        """Create or update the config map of one namespace."""
        if not is_active(self._namespaces.get("", key)):
            return
        found: ConfigMap | None = self._config_maps.get(key, CONFIG_MAP)
        wanted = desired_config_map(found, key, self._root_ca)
        if found is None:
            await self._create(wanted)
        elif wanted is not found:
            # The controller's role allows updates, but no patches.
            await self._client.update(wanted)

    async def _create(self, wanted: ConfigMap) -> None:
        try:
            await self._client.create(wanted)
        except Forbidden as error:
            if not is_terminating(error):
                raise


def desired_config_map(found: ConfigMap | None, namespace: str, root_ca: str) -> ConfigMap:
    """Build the desired config map; returns the existing one if it is right."""
    data = {"ca.crt": root_ca}
    if found is None:
        meta = ObjectMeta(name=CONFIG_MAP, namespace=namespace, annotations={DESCRIBED_BY: DESCRIPTION})
        return ConfigMap(metadata=meta, data=data)
    annotations = found.metadata.annotations
    if found.data == data and annotations.get(DESCRIBED_BY):
        return found
    meta = msgspec.structs.replace(found.metadata, annotations={**annotations, DESCRIBED_BY: DESCRIPTION})
    return msgspec.structs.replace(found, metadata=meta, data=data)


def _is_active(_: Any, namespace: Any) -> bool:
    return is_active(namespace)


def _was_touched(old: Any, new: Any) -> bool:
    """Return True if the config map was changed or deleted; its creation is expected."""
    return old is not None or new is None
