# SPDX-License-Identifier: Apache-2.0
"""DefaultBinder: writes the Binding of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.api.generated.core_v1 import Binding, ObjectReference
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.framework.status import Status

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import SchedulingCycle


class DefaultBinder(Plugin):
    """Creates a Binding with the pod's uid, so that it does not apply to another pod of the same name."""

    name = "DefaultBinder"

    async def bind(self, cycle: SchedulingCycle, node: str) -> Status | bool:
        """Create the Binding."""
        name, namespace = cycle.pod.key.name, cycle.pod.key.namespace
        binding = Binding(
            metadata=ObjectMeta(name=name, namespace=namespace, uid=cycle.pod.uid),
            target=ObjectReference(kind="Node", name=node),
        )
        await self.handle.client.create_subresource("pods", name, "binding", binding, namespace)
        return True
