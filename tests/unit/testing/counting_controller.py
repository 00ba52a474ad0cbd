# SPDX-License-Identifier: Apache-2.0
"""A small loop to test with: writes on each config map labelled `count` how many keys its data has."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import ConfigMap
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller, Result
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.queue.enqueue import own_key

NOTE = "example.com/keys"
AGAIN = 3600.0


def counting(context: ControllerContext) -> Controller[ObjectKey]:
    config_maps = context.informers.for_resource(resource_of_class(ConfigMap), labels="count")

    async def reconcile(key: ObjectKey) -> Result | None:
        found = config_maps.get(*key)
        if found is None:
            return None
        wanted = str(len(found.data))
        if found.metadata.annotations.get(NOTE) != wanted:
            patch = {"metadata": {"annotations": {NOTE: wanted}}}
            await context.client.patch(ConfigMap, key.name, patch, key.namespace)
            context.recorder.event(found, "Normal", "Counted", f"{wanted} keys")
        return Result(requeue_after=AGAIN)

    controller = Controller("counting", reconcile, context.clock, telemetry=context.telemetry)
    controller.watches(config_maps, own_key)
    return controller
