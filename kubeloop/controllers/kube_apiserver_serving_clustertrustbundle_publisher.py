# SPDX-License-Identifier: Apache-2.0
"""Publishes one trust bundle that verifies the API server, and deletes those of former authorities.

Watches: cluster trust bundles of the signer `kubernetes.io/kube-apiserver-serving`.
Owns: all of them.
Writes: creates, updates and deletes bundles.
Wakes itself: never.
Differs from upstream: uses only certificates.k8s.io/v1, not its betas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.shared.sync_metrics import with_sync_metrics
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import Loop
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "kube-apiserver-serving-clustertrustbundle-publisher-controller"
SUBSYSTEM = "clustertrustbundle_publisher"  # prefix of metrics
QUEUE = "ca_cert_publisher_cluster_trust_bundles"  # upstream's queue name, as dashboards know it
SIGNER: Final = "kubernetes.io/kube-apiserver-serving"


def wire(context: ControllerContext) -> Loop:
    """Build the controller, or a disabled one without a root CA."""
    if not context.root_ca:
        return DisabledController(NAME)
    bundles = context.informers.for_resource(resource_of_class(ClusterTrustBundle), fields=f"spec.signerName={SIGNER}")
    publisher = Publisher(context.client, bundles, context.root_ca)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    sync = with_sync_metrics(publisher.reconcile, context, SUBSYSTEM)
    controller = Controller(NAME, sync, context.clock, workers=1, queue=queue, telemetry=context.telemetry)
    controller.watches(bundles, lambda _: (SIGNER,))
    queue.add(SIGNER)
    return controller


class Publisher:
    """Publishes the trust bundle."""

    def __init__(self, client: Client, bundles: Informer, root_ca: str) -> None:
        self._client = client
        self._bundles = bundles
        self._wanted = bundle_of(root_ca)

    async def reconcile(self, _: str) -> None:
        """Create or update the bundle, and delete all others of the signer."""
        wanted = self._wanted
        found: ClusterTrustBundle | None = self._bundles.get("", wanted.metadata.name)
        if found is None:
            await self._client.create(wanted)
        elif found.spec.trust_bundle != wanted.spec.trust_bundle:
            # The controller's role allows updates, but neither patches nor reading a single bundle.
            await self._client.update(msgspec.structs.replace(found, spec=wanted.spec))
        await self._remove(one for one in self._bundles.list() if one.metadata.name != wanted.metadata.name)

    async def _remove(self, bundles: Iterable[ClusterTrustBundle]) -> None:
        """Delete as many as possible, then raise the errors."""
        errors: list[Exception] = []
        for one in bundles:
            this_one = Preconditions(uid=one.metadata.uid)
            try:
                with suppress(NotFound):
                    await self._client.delete(ClusterTrustBundle, one.metadata.name, preconditions=this_one)
            except Exception as error:  # on any error, continue with the next
                errors.append(error)
        if errors:
            raise ExceptionGroup("failed to delete cluster trust bundles", errors)


def bundle_of(root_ca: str) -> ClusterTrustBundle:
    """Build the bundle; its name contains a digest of its content."""
    digest = hashlib.sha256(root_ca.encode()).digest()[:12].hex()
    name = f"{SIGNER.replace('/', ':')}:{digest}"
    return ClusterTrustBundle(
        metadata=ObjectMeta(name=name), spec=ClusterTrustBundleSpec(signer_name=SIGNER, trust_bundle=root_ca)
    )
