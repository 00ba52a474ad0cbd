# SPDX-License-Identifier: Apache-2.0
"""Signs the config map `cluster-info` of kube-public with each bootstrap token that may sign.

A client that has such a token can verify the cluster's data without knowing the cluster yet.

Watches: that config map; secrets of kube-system of type `bootstrap.kubernetes.io/token`.
Owns: the config map's keys that begin with `jws-kubeconfig-`.
Writes: these keys.
Wakes itself: when a token expires.
Differs from upstream: caches no other secrets and config maps; removes a signature when its token expires, even if
  the token is not deleted.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.clock import Clock
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.tokens.bootstrap_tokens import Token, bootstrap_secrets, seconds_left, signing_token
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "bootstrap-signer-controller"
QUEUE = "bootstrap_signer_queue"  # upstream's queue name, as dashboards know it
SIGNED: Final = ObjectKey("kube-public", "cluster-info")
CONTENT: Final = "kubeconfig"
PREFIX: Final = "jws-kubeconfig-"


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    secrets = bootstrap_secrets(context)
    config_maps = context.informers.for_resource(
        resource_of_class(ConfigMap), namespace=SIGNED.namespace, fields=f"metadata.name={SIGNED.name}"
    )
    reconciler = Reconciler(context.client, config_maps, secrets, context.clock)
    queue: WorkQueue[ObjectKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=1, queue=queue, telemetry=context.telemetry
    )
    controller.watches(config_maps, lambda _: (SIGNED,), _is_there)
    controller.watches(secrets, lambda _: (SIGNED,))
    return controller


class Reconciler:
    """Signs the config map."""

    def __init__(self, client: Client, config_maps: Informer, secrets: Informer, clock: Clock) -> None:
        self._writer = PatchOrUpdate(client)
        self._config_maps = config_maps
        self._secrets = secrets
        self._clock = clock

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Update the signatures; returns the time until the next token expires."""
        found: ConfigMap | None = self._config_maps.get(*key)
        if found is None or CONTENT not in found.data:
            return None
        now = self._clock.now()
        tokens = [token for one in self._secrets.list() if (token := signing_token(one, now)) is not None]
        changes = signature_changes(found.data, {one.identifier: one for one in tokens})
        if changes:
            meta = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
            patch = {"metadata": meta, "data": changes}
            try:
                await self._writer.patch(self._config_maps.resource, key.name, patch, key.namespace)
            except NotFound:
                return None
        ends = [left for one in self._secrets.list() if (left := seconds_left(one, now))]
        return Result(requeue_after=min(ends)) if ends else None


def signature_changes(data: Mapping[str, str], tokens: Mapping[str, Token]) -> dict[str, str | None]:
    """Return the changes with which exactly these tokens sign the content."""
    wanted = {PREFIX + name: signature_of(data[CONTENT], token) for name, token in tokens.items()}
    changes: dict[str, str | None] = {key: value for key, value in wanted.items() if data.get(key) != value}
    changes.update((key, None) for key in data if key.startswith(PREFIX) and key not in wanted)
    return changes


def signature_of(content: str, token: Token) -> str:
    """Build a detached JWS by HMAC with SHA-256; the payload is omitted because it is in the same object."""
    head = _encoded(msgspec.json.encode({"alg": "HS256", "kid": token.identifier}))
    signed = f"{head}.{_encoded(content.encode())}".encode()
    return f"{head}..{_encoded(hmac.digest(token.secret.encode(), signed, hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _is_there(_: Any, new: Any) -> bool:
    return new is not None
